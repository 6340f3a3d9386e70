package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/yamux"
	"golang.org/x/sync/errgroup"

	"github.com/farwire/farwire/conn"
	"github.com/farwire/farwire/rdma"
)

// client opens n streams on one connection and sends size bytes on each.
func client(ctx context.Context, address string, n int, size int64, stdout io.Writer) error {
	var d rdma.Dialer
	c, err := d.DialContext(ctx, "rdma", address)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s over %s\n", c.RemoteAddr(), c.(*conn.Conn).Device())
	session, err := yamux.Client(c, config())
	if err != nil {
		c.Close()
		return err
	}
	defer session.Close()
	defer context.AfterFunc(ctx, func() { session.Close() })()

	start := time.Now()
	var group errgroup.Group
	for i := range n {
		group.Go(func() error {
			stream, err := session.OpenStream()
			if err != nil {
				return fmt.Errorf("stream %d: %w", i, err)
			}
			defer stream.Close()
			if err := roundTrip(stream, size, byte(i)); err != nil {
				return fmt.Errorf("stream %d: %w", i, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	took := time.Since(start)
	fmt.Fprintf(stdout, "%d streams over one connection: %d bytes each way on each, %v, %.0f MB/s, every checksum agrees\n",
		n, size, took.Round(time.Millisecond), 2*float64(n)*float64(size)/1e6/took.Seconds())
	return nil
}

// roundTrip sends size bytes drawn from seed while it reads them back.
func roundTrip(stream *yamux.Stream, size int64, seed byte) error {
	sent, received := sha256.New(), sha256.New()
	writing := make(chan error, 1)
	go func() {
		body := io.LimitReader(rand.NewChaCha8([32]byte{seed}), size)
		_, err := io.Copy(stream, io.TeeReader(body, sent))
		writing <- err
	}()
	_, err := io.CopyN(received, stream, size)
	if err != nil {
		stream.Close() // ends the writer too
	}
	if werr := <-writing; err == nil {
		err = werr
	}
	if err == nil && string(sent.Sum(nil)) != string(received.Sum(nil)) {
		err = fmt.Errorf("the bytes came back changed")
	}
	return err
}
