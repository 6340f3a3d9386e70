package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"github.com/farwire/farwire/rdma/mlx5/cq"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
)

// borrow writes count blocks into the memory of the lender at address and reads each
// back, then compares what both sides hold.
func borrow(ctx context.Context, address string, count int, stdout io.Writer) (err error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()

	s, err := newSide(region.Local)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	theirs, err := s.meet(c, region.Local)
	if err != nil {
		return err
	}
	var word string
	if err := s.hear.Decode(&word); err != nil {
		return fmt.Errorf("lender: %w", err)
	}
	if theirs.Length < int(s.memory.Len()) {
		return fmt.Errorf("the lender has %d bytes, %d are needed", theirs.Length, s.memory.Len())
	}
	fmt.Fprintf(stdout, "%s, queue pair %#x to %#x at %v, key %#x\n",
		s.name, s.pair.Number(), theirs.Endpoint.QPN, theirs.Endpoint.GID, theirs.Memory.RKey)

	b := borrower{side: s, theirs: theirs.Memory}
	b.fill()
	for _, op := range []qp.Op{qp.Write, qp.Read} {
		if err := b.move(ctx, op, count, stdout); err != nil {
			return fmt.Errorf("%v: %w", op, err)
		}
	}
	return b.compare(stdout)
}

// borrower is a side with the peer's memory at its disposal.
type borrower struct {
	*side
	theirs region.Target
	want   [sha256.Size]byte // of this side's memory before it was written
}

// fill makes this side's memory something that no earlier run has left anywhere.
func (b *borrower) fill() {
	memory := b.memory.Bytes()
	for i := range memory {
		memory[i] = byte(rand.Uint32())
	}
	b.want = sha256.Sum256(memory)
}

// move runs count entries of op, a block each, as many at once as there are blocks.
// Before it reads, it clears this side's memory, so that only the peer's can fill it.
func (b *borrower) move(ctx context.Context, op qp.Op, count int, stdout io.Writer) error {
	if op == qp.Read {
		clear(b.memory.Bytes())
	}
	start := time.Now()
	var completions [blocks]cq.Completion
	for posted, completed := 0, 0; completed < count; {
		for posted < count && b.pair.Room(qp.Sends) > 0 && posted-completed < blocks {
			if err := b.post(op, posted%blocks); err != nil {
				return err
			}
			posted++
		}
		b.pair.Ring()
		if err := b.done.Wait(ctx); err != nil {
			return err
		}
		n, err := b.done.Poll(completions[:])
		if err != nil {
			return err
		}
		for i := range n {
			if err := completions[i].Err(); err != nil {
				return err
			}
		}
		completed += n
	}
	took := time.Since(start)
	fmt.Fprintf(stdout, "%-5v %d blocks of %d KiB in %v, %.0f MB/s\n", op, count, blockSize>>10,
		took.Round(time.Microsecond), float64(count)*blockSize/1e6/took.Seconds())
	return nil
}

func (b *borrower) post(op qp.Op, block int) error {
	off := block * blockSize
	return b.pair.Post(qp.Entry{
		Op:       op,
		Local:    b.memory.Local(off, blockSize),
		Remote:   region.Target{Addr: b.theirs.Addr + uint64(off), RKey: b.theirs.RKey},
		Signaled: true,
	})
}

// compare asks the lender what its memory holds.
func (b *borrower) compare(stdout io.Writer) error {
	if err := b.tell.Encode(done); err != nil {
		return err
	}
	var theirs [sha256.Size]byte
	if err := b.hear.Decode(&theirs); err != nil {
		return fmt.Errorf("lender: %w", err)
	}
	back := sha256.Sum256(b.memory.Bytes())
	if !bytes.Equal(theirs[:], b.want[:]) || !bytes.Equal(back[:], b.want[:]) {
		return fmt.Errorf("checksums differ: sent %x, the lender has %x, read back %x", b.want, theirs, back)
	}
	fmt.Fprintf(stdout, "checksum %.6x of both memories agrees\n", b.want)
	return nil
}
