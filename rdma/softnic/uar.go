package softnic

import (
	"sync/atomic"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/prm"
)

// uar is a doorbell page. Its memory is the driver's to store to; wake says
// that it did.
//
// A store and its wake are two steps, so stores of several goroutines to one
// register can overwrite each other before a wake looks. Each wake notes the word that
// it finds, and the NIC takes the word out of the register: where a wake found none, or
// the same as another, a doorbell may have been lost, and every object of the page is
// looked at. There may be thousands.
type uar struct {
	nic       *NIC
	mem       PageMemory
	index     uint32 // page number
	offset    int64  // of its mapping
	nonCached bool
	static    bool
	polled    bool // its process cannot say that it rang
	origin    origin

	next  *uar // in the NIC's list of rung pages
	rung  atomic.Uint32
	wakes [numRegisters]atomic.Uint32 // of registers without a word, and of polled pages
	words [armIndex + 1]foundWords    // of the send registers and the arm register

	// Under NIC.mu.
	half [4]byte // of a doorbell that a function gets in two stores
	refs int     // the object, each mapping of it, and each queue
	qps  map[*qp]bool
	cqs  map[*cq]bool
	seen [numRegisters - 1][maxRegister]byte // what lay behind a register's first word
}

// The registers of a page, as rung and wakes number them: the halves of the
// send registers, then the arm register, then a wake at any other offset.
const (
	halfSize     = 0x100
	armIndex     = (prm.PageSize - prm.SendRegister) / halfSize
	strayIndex   = armIndex + 1
	numRegisters = strayIndex + 1
	maxRegister  = halfSize
)

// registerIndex is the number of the register at an offset into the page.
func registerIndex(offset int) int {
	switch {
	case offset == prm.ArmRegister:
		return armIndex
	case offset >= prm.SendRegister && offset < prm.PageSize && offset%halfSize == 0:
		return (offset - prm.SendRegister) / halfSize
	}
	return strayIndex
}

// number is the page's number, 0 of none.
func (u *uar) number() uint32 {
	if u == nil {
		return 0
	}
	return u.index
}

// wake notes that the register at offset was stored to, and has the NIC look.
func (u *uar) wake(offset int) {
	i := registerIndex(offset)
	if i <= armIndex {
		u.words[i].find(u.word(i))
	} else {
		u.wakes[i].Add(1)
	}
	if u.rung.Or(1<<i) == 0 {
		u.nic.pushRung(u)
	}
	u.nic.kick()
}

// pushRung adds a page to the list of rung ones. It is there once: only the
// wake that finds no register rung pushes.
func (n *NIC) pushRung(u *uar) {
	for {
		head := n.rung.Load()
		u.next = head
		if n.rung.CompareAndSwap(head, u) {
			return
		}
	}
}

// answerDoorbells handles every rung register and returns how many there were.
func (n *NIC) answerDoorbells() (did int) {
	if n.rung.Load() == nil {
		return 0
	}
	for u := n.rung.Swap(nil); u != nil; {
		next := u.next // before rung is cleared: then it may be pushed again
		u.next = nil
		for mask, i := u.rung.Swap(0), 0; mask != 0; mask, i = mask>>1, i+1 {
			if mask&1 != 0 {
				did++
				u.answer(i)
			}
		}
		u = next
	}
	return did
}

func (u *uar) answer(i int) {
	wakes := u.wakes[i].Swap(0)
	switch {
	case u.refs == 0 || u.nic.failed:
		if i <= armIndex {
			u.words[i].take(u.word(i), &u.nic.found)
		}
	case i == strayIndex:
		u.nic.badDoorbell("store outside the registers", "page", u.index)
	case i == armIndex:
		u.answerArm(wakes)
	default:
		u.answerSend(i, wakes)
	}
}

// word is the first word of a register.
func (u *uar) word(i int) *uint64 { return hostmem.Word64(u.mem.Bytes()[registerOffset(i):]) }

func (u *uar) answerArm(wakes uint32) {
	found := &u.nic.found
	word := u.words[armIndex].take(u.word(armIndex), found)
	if u.nic.tracing() {
		u.traceDoorbell(prm.ArmRegister, word, nil, false, wakes+found.n)
	}
	if wakes > 0 || found.lost {
		for c := range u.cqs {
			c.rearm()
		}
	}
	for _, earlier := range found.earlier() {
		u.answerArmWord(earlier)
	}
	if word != 0 {
		u.answerArmWord(word)
	}
}

func (u *uar) answerArmWord(word uint64) {
	value, cqn := prm.ParseArmDoorbell(word)
	c := u.nic.cqs[cqn]
	if c == nil || c.uar != u {
		u.nic.badDoorbell("arm of no completion queue of the page", "page", u.index, "cqn", cqn)
		return
	}
	record, ok := c.loadArm()
	if !ok {
		u.nic.warn("arm doorbell record is not mapped", "cqn", cqn)
		return
	}
	// The record is written first, so it holds this value or a newer one.
	newest := prm.BE32(record)
	if newest != value && !newerArm(newest, value) {
		u.nic.badDoorbell("arm record does not hold the value of the doorbell",
			"cqn", cqn, "record", newest, "doorbell", value)
		return
	}
	c.arm(newest)
}

// newerArm reports whether a may be an arm of the same queue later than b.
func newerArm(a, b uint32) bool {
	asn, _, aci, aok := prm.ParseArm(a)
	bsn, _, bci, bok := prm.ParseArm(b)
	return aok && bok && (asn != bsn || (aci-bci)&prm.MaxNumber < 1<<23)
}

func (u *uar) answerSend(i int, wakes uint32) {
	n := u.nic
	found := &n.found
	copy(n.blueFlame[:], u.mem.Bytes()[prm.SendRegister+i*halfSize:][:maxRegister])
	copied := prm.SendDoorbell(n.blueFlame[:])
	word := u.words[i].take(u.word(i), found)
	// The first word of an entry is stored first, so what lay behind it is whole if the
	// wake that follows the last store has come and no other word has.
	whole := found.n == 1 && word == found.words[0] && word == copied
	if n.tracing() {
		u.traceDoorbell(prm.SendRegister+i*halfSize, word, n.blueFlame[8:], u.carries(i, maxRegister), wakes+found.n)
	}
	if wakes > 0 || found.lost {
		for q := range u.qps {
			q.ring()
		}
	}
	for _, earlier := range found.earlier() {
		bell := prm.ParseSendDoorbell(earlier)
		if q := n.qps[bell.QPN]; q != nil && q.uar == u && u.mayRing(q, i) {
			n.count.Doorbells++
			q.doorbell(bell)
		}
	}
	if word != 0 {
		u.answerWord(i, prm.ParseSendDoorbell(word), whole)
	}
	copy(u.seen[i][:], n.blueFlame[:])
}

// answerWord is answerSend for the word that was found. whole says that nothing was
// being stored behind it.
func (u *uar) answerWord(i int, bell prm.Ctrl, whole bool) {
	n := u.nic
	n.count.Doorbells++
	q := n.qps[bell.QPN]
	switch {
	case q == nil || q.uar != u:
		n.badDoorbell("send doorbell for no queue pair of the page", "page", u.index, "qpn", bell.QPN)
	case !u.mayRing(q, i):
		n.badDoorbell("send doorbell at a register the queue pair does not have",
			"page", u.index, "register", i, "qpn", bell.QPN)
	default:
		q.doorbell(bell)
		u.checkBlueFlame(q, i, bell, whole)
	}
}

// forgetQP takes the doorbells that the NIC has not looked at yet, of a queue pair
// that goes, out of the page. Their wakes find nothing then.
func (u *uar) forgetQP(qpn uint32) {
	for i := range armIndex {
		u.forget(i, func(word uint64) bool {
			return prm.ParseSendDoorbell(word).QPN == qpn
		})
	}
}

// forgetCQ is forgetQP for a completion queue and its arm.
func (u *uar) forgetCQ(cqn uint32) {
	u.forget(armIndex, func(word uint64) bool {
		_, n := prm.ParseArmDoorbell(word)
		return n == cqn
	})
}

func (u *uar) forget(i int, is func(word uint64) bool) { u.words[i].forget(u.word(i), is) }

// mayRing reports whether register half i belongs to the queue pair: in static
// mode the one it was given, else any that user space has. The distance of the
// registers is the size that was reported, so without write combining there is
// only the first half of the first.
func (u *uar) mayRing(q *qp, i int) bool {
	register := i * halfSize / blueFlameSize
	switch {
	case u.nic.cfg.NoBlueFlame:
		return i == 0
	case u.static:
		return register == int(q.register%prm.PageRegisters)
	}
	return register < prm.UserRegisters
}

// checkBlueFlame compares the entry that came with a doorbell, if one did, with
// the one in the queue. What lies behind the register's first word is an entry
// unless it was there before. Only the entry at the queue's head can be judged;
// with others in front of it an older store may still lie there. One that differs may
// also be half stored, unless whole says that it is not.
func (u *uar) checkBlueFlame(q *qp, i int, bell prm.Ctrl, whole bool) {
	n := u.nic
	size := min(int(bell.DS)*prm.Unit, maxRegister)
	if size <= 8 || bell.Index != q.head || !u.carries(i, size) {
		return
	}
	if !q.copyEntry(n.entry[:size], bell.Index) {
		return
	}
	switch {
	case string(n.entry[8:size]) == string(n.blueFlame[8:size]):
		n.count.BlueFlames++
		return
	case !whole:
		return
	}
	n.badDoorbell("BlueFlame entry differs from the queue's", "qpn", q.qpn, "index", bell.Index)
	q.blueFlameBad = true
}

// carries reports whether other bytes lie behind the first word of a register, of
// size bytes, than when the NIC looked before.
func (u *uar) carries(i, size int) bool {
	return !u.nonCached && string(u.nic.blueFlame[8:size]) != string(u.seen[i][8:size])
}

// blueFlameSize is the size of a register with write combining: two halves.
const blueFlameSize = 2 * halfSize

// newUAR makes page index, or returns nil if there is no memory.
func (n *NIC) newUAR(index uint32) *uar {
	mem, err := hostmem.Alloc(max(prm.PageSize, hostmem.PageSize()))
	if err != nil {
		n.warn("doorbell page", "error", err)
		return nil
	}
	n.count.UARs++
	return &uar{nic: n, mem: mem, index: index, refs: 1, qps: map[*qp]bool{}, cqs: map[*cq]bool{}}
}

// put ends one use of the page; the last one frees it.
func (u *uar) put() {
	if u.refs--; u.refs > 0 {
		return
	}
	u.nic.count.UARs--
	if err := u.mem.Free(); err != nil {
		u.nic.warn("doorbell page", "error", err)
	}
}
