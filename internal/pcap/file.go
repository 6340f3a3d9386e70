package pcap

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Sizes and words of a file (draft-ietf-opsawg-pcap, pcap-savefile(5)). Ours are little
// endian on every machine.
const (
	fileHeaderSize   = 24
	recordHeaderSize = 16
	nanoseconds      = 0xa1b23c4d // the magic number that says so
	major, minor     = 2, 4
	snapLength       = 1 << 16 // more than any packet has
)

// LinkType is what the packets of a file begin with. A file has one
// (draft-ietf-opsawg-pcaplinktype).
type LinkType uint32

const (
	Ethernet   LinkType = 1   // LINKTYPE_ETHERNET: an Ethernet header
	InfiniBand LinkType = 197 // LINKTYPE_ERF: a header of Endace's, which says that a local route header follows
)

// String names the packets.
func (t LinkType) String() string {
	switch t {
	case Ethernet:
		return "Ethernet"
	case InfiniBand:
		return "InfiniBand"
	}
	return fmt.Sprintf("LinkType(%d)", uint32(t))
}

// fileHeader is what a file of such packets begins with.
func (t LinkType) fileHeader() []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, nanoseconds)
	b = le.AppendUint16(b, major)
	b = le.AppendUint16(b, minor)
	b = append(b, make([]byte, 8)...) // time zone and accuracy: always 0
	b = le.AppendUint32(b, snapLength)
	return le.AppendUint32(b, uint32(t))
}

// ErrForeign is returned for a file that is there and no capture of this package's, or one
// of packets of the other kind.
var ErrForeign = errors.New("the file exists and is not ours")

// Writer writes a capture. It is safe for concurrent use.
type Writer struct {
	mu     sync.Mutex
	file   *os.File
	now    func() time.Time
	record []byte
	failed error // the first
}

// Open makes a capture of packets of a kind, or goes on with one. Writers, of several processes too, may
// share a file: a record is written whole, by one system call. What is not a regular
// file, such as a pipe that Wireshark reads, gets a capture from its beginning.
func Open(name string, t LinkType) (*Writer, error) {
	f, err := t.open(name)
	if err != nil {
		return nil, fmt.Errorf("open capture: %w", err)
	}
	return &Writer{file: f, now: time.Now}, nil
}

func (t LinkType) open(name string) (*os.File, error) {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := t.create(name); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return t.begin(name)
	}
	if err := t.check(name); err != nil {
		return nil, err
	}
	return os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
}

// create makes a file with its header in one step, so that nobody sees it without, and
// leaves alone one that somebody else has made meanwhile.
func (t LinkType) create(name string) error {
	// Not os.CreateTemp, which lets nobody else read the file, whatever the umask says.
	temp, err := os.OpenFile(filepath.Join(filepath.Dir(name), ".pcap-"+rand.Text()), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(t.fileHeader())
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	if err := os.Link(temp.Name(), name); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func (t LinkType) begin(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(t.fileHeader()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (t LinkType) check(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	var b [fileHeaderSize]byte
	if _, err := io.ReadFull(f, b[:]); err != nil || string(b[:]) != string(t.fileHeader()) {
		return fmt.Errorf("%s is no capture of %v packets in nanoseconds: %w", name, t, ErrForeign)
	}
	return nil
}

// Write writes a packet of now to a capture of Ethernet packets: a frame's headers, and b
// behind them. After an error it does nothing; Close tells of it.
func (w *Writer) Write(h *Header, b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.record = append(h.Append(w.begin(0), b), b...)
	w.put(w.now())
}

// WriteLocal is Write for a capture of InfiniBand packets; b is from BTH to pad.
func (w *Writer) WriteLocal(l *Local, b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.record = l.Append(w.begin(erfSize), b)
	now := w.now()
	putERF(w.record[recordHeaderSize:], now)
	w.put(now)
}

// begin is room for a record's header and n bytes, for the packet to be appended to.
func (w *Writer) begin(n int) []byte {
	var space [recordHeaderSize + erfSize]byte
	return append(w.record[:0], space[:recordHeaderSize+n]...)
}

// put writes the record, whose header is still to be filled in.
func (w *Writer) put(now time.Time) {
	if w.failed != nil {
		return
	}
	le, n := binary.LittleEndian, uint32(len(w.record)-recordHeaderSize)
	le.PutUint32(w.record[0:], uint32(now.Unix()))
	le.PutUint32(w.record[4:], uint32(now.Nanosecond()))
	le.PutUint32(w.record[8:], n)  // captured
	le.PutUint32(w.record[12:], n) // on the wire
	_, w.failed = w.file.Write(w.record)
}

// Close closes the file, and returns the first error of all.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := errors.Join(w.failed, w.file.Close()); err != nil {
		return fmt.Errorf("write capture: %w", err)
	}
	return nil
}
