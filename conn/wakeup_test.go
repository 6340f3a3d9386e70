package conn

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// choices is one path through a tree of decisions, taken in the order of depth.
type choices struct {
	taken  []int // of the path; those beyond were 0
	widths []int // how many there were to choose from
}

// choose decides between n things.
func (c *choices) choose(n int) int {
	i := len(c.widths)
	c.widths = append(c.widths, n)
	if i == len(c.taken) {
		c.taken = append(c.taken, 0)
	}
	return min(c.taken[i], n-1)
}

// next turns to the next path, and reports whether there is one.
func (c *choices) next() bool {
	i := len(c.widths) - 1
	for i >= 0 && c.taken[i]+1 >= c.widths[i] {
		i--
	}
	if i < 0 {
		return false
	}
	c.taken, c.widths = append(c.taken[:i], c.taken[i]+1), c.widths[:0]
	return true
}

// happening is one thing that a NIC will do, once.
type happening struct {
	may  func(q *decidingQueue) bool // whether it may be now
	what func(q *decidingQueue) Completion
}

// decidingQueue is a queue on which every call is a chance for each thing that is still to
// come to have happened just before it.
type decidingQueue struct {
	*fakeQueue
	*choices
	coming []happening
	sent   []uint64 // what was posted, data and control
	data   int      // of these, data
	done   int      // of these, completed
	grants int      // that the peer has told
}

// enabled returns what may happen now, by index in coming.
func (q *decidingQueue) enabled() (now []int) {
	for i, h := range q.coming {
		if h.may(q) {
			now = append(now, i)
		}
	}
	return now
}

// happen lets one of what may happen be, at least if it must.
func (q *decidingQueue) happen(must int) bool {
	q.f.mu.Lock()
	defer q.f.mu.Unlock()
	now := q.enabled()
	if len(now) == 0 {
		return false
	}
	k := q.choose(len(now)+1-must) - 1 + must
	if k < 0 {
		return false
	}
	h := q.coming[now[k]]
	q.coming = append(q.coming[:now[k]:now[k]], q.coming[now[k]+1:]...)
	q.complete(h.what(q))
	return true
}

func (q *decidingQueue) decide() {
	for q.happen(0) {
	}
}

func (q *decidingQueue) PostSend(id uint64, b Buffer, imm uint32, more bool) error {
	q.decide()
	q.sent = append(q.sent, id)
	if len(b.Bytes) > 0 {
		q.data++
	}
	return q.fakeQueue.PostSend(id, b, imm, more)
}

func (q *decidingQueue) Poll(c []Completion) (int, error) {
	q.decide()
	return q.fakeQueue.Poll(c)
}

func (q *decidingQueue) Arm() error {
	q.decide()
	return q.fakeQueue.Arm()
}

// completes is the completion of the oldest send that has none yet.
var completes = happening{
	func(q *decidingQueue) bool { return q.done < len(q.sent) },
	func(q *decidingQueue) Completion {
		q.done++
		return Completion{ID: q.sent[q.done-1]}
	},
}

// arrives is a message of n bytes that comes once the peer has received so much data, and
// grants as much.
func arrives(n uint32, data int) happening {
	return happening{
		func(q *decidingQueue) bool { return q.data >= data },
		func(q *decidingQueue) Completion {
			q.grants = max(q.grants, data)
			return Completion{ID: q.receive(), Receive: true, Bytes: n, Imm: uint32(q.grants), HasImm: true}
		},
	}
}

// TestWakeupsExplored: a reader waits for one byte and a writer, who has one buffer and one
// credit, for what lets it write two messages. However the completions and the calls
// fall, both get what they wait for, without any timer.
func TestWakeupsExplored(t *testing.T) {
	for _, misses := range []bool{false, true} {
		for _, readerFirst := range []bool{false, true} {
			if raceEnabled && !(misses && readerFirst) {
				continue
			}
			t.Run(fmt.Sprintf("misses=%v,reader first=%v", misses, readerFirst), func(t *testing.T) {
				var path choices
				paths := 0
				for more := true; more; more = path.next() {
					synctest.Test(t, func(t *testing.T) { oneWay(t, &path, misses, readerFirst) })
					if t.Failed() {
						t.Fatalf("on the path %v", path.taken)
					}
					paths++
				}
				t.Logf("%d paths", paths)
				require.Greater(t, paths, 100)
			})
		}
	}
}

// oneWay is one path of TestWakeupsExplored.
func oneWay(t *testing.T, path *choices, misses, readerFirst bool) {
	f := newFabric()
	q := &decidingQueue{fakeQueue: f.ends[0], choices: path, coming: []happening{
		arrives(1, 0), // what the reader wants
		arrives(0, 1), // the credit for the second message
		completes,     // the sends: two messages, and a report of the grant for the byte
		completes,
		completes,
	}}
	q.holdSends, q.armMisses = true, misses
	c, err := New(q, Config{Sends: buffers(1, MinSize), Receives: buffers(MinReceives, MinSize),
		PeerReceives: MinReceives, PeerSize: MinSize, Spin: -1})
	require.NoError(t, err)
	read, wrote := make(chan error, 1), make(chan error, 1)
	for i := range 2 {
		if (i == 0) == readerFirst {
			go func() { _, err := c.Read(make([]byte, 1)); read <- err }()
		} else {
			go func() { _, err := c.Write(make([]byte, 2*MinSize)); wrote <- err }()
		}
		synctest.Wait()
	}
	for q.happen(1) {
		synctest.Wait()
	}
	for name, ended := range map[string]chan error{"reader": read, "writer": wrote} {
		select {
		case err := <-ended:
			require.NoError(t, err)
		default:
			t.Errorf("the %s sleeps on", name)
		}
	}
	require.Empty(t, q.coming)
	c.Abort()
	<-c.Released()
	f.check(t)
}
