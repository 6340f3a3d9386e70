package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/farwire/farwire/conn"
	"github.com/farwire/farwire/rdma"
)

// sizes are the messages measured, in bytes.
var sizes = []int{64, 4096, 65536}

// client measures count round trips of each size against the server at address.
func client(ctx context.Context, address string, count int, stdout io.Writer) error {
	var d rdma.Dialer
	c, err := d.DialContext(ctx, "rdma", address)
	if err != nil {
		return err
	}
	defer c.Close()
	// A blocked Read has no context: closing the connection is what ends it.
	defer context.AfterFunc(ctx, func() { c.Close() })()
	fmt.Fprintf(stdout, "%s over %s\n", c.RemoteAddr(), c.(*conn.Conn).Device())

	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "bytes\tmessages\tp50\tp90\tp99\tp99.9\tround trips/s\t")
	for _, size := range sizes {
		trips, err := measure(c, size, count)
		if err != nil {
			return fmt.Errorf("%d bytes: %w", size, err)
		}
		row(table, size, trips)
	}
	return table.Flush()
}

// measure sends count messages one after the other, checks that each comes
// back as it was sent, and returns how long each took.
func measure(c net.Conn, size, count int) ([]time.Duration, error) {
	out, in := make([]byte, size), make([]byte, size)
	trips := make([]time.Duration, 0, count)
	warm := count/10 + 1
	for i := range warm + count {
		fill(out, i)
		start := time.Now()
		if _, err := c.Write(out); err != nil {
			return nil, err
		}
		if _, err := io.ReadFull(c, in); err != nil {
			return nil, err
		}
		if i >= warm {
			trips = append(trips, time.Since(start))
		}
		if !bytes.Equal(in, out) {
			return nil, fmt.Errorf("message %d came back changed", i)
		}
	}
	return trips, nil
}

// fill makes message i differ from the one before it at both ends.
func fill(b []byte, i int) {
	b[0], b[len(b)-1] = byte(i), byte(i>>8)
}

func row(w io.Writer, size int, trips []time.Duration) {
	var total time.Duration
	for _, t := range trips {
		total += t
	}
	slices.Sort(trips)
	at := func(q float64) time.Duration {
		return trips[min(len(trips)-1, int(q*float64(len(trips))))].Round(100 * time.Nanosecond)
	}
	fmt.Fprintf(w, "%d\t%d\t%v\t%v\t%v\t%v\t%.0f\t\n", size, len(trips),
		at(0.50), at(0.90), at(0.99), at(0.999), float64(len(trips))/max(total.Seconds(), 1e-9))
}
