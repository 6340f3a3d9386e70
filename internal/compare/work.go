package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"
)

// A job is what a client asks its server to take part in. There and back means that each
// message is answered with one like it, else they only go one way.
type job struct {
	back  bool
	size  int // bytes of a message
	count int
}

// result is what a job took: the time, and that of the processors in both processes.
type result struct {
	wall, cpu time.Duration
}

// The server is sent a job as three numbers, and when it is done sends what time of the
// processor it took, in nanoseconds.
const (
	jobSize  = 3 * 8
	doneSize = 8
)

func (j job) put(b []byte) {
	back := uint64(0)
	if j.back {
		back = 1
	}
	binary.LittleEndian.PutUint64(b, back)
	binary.LittleEndian.PutUint64(b[8:], uint64(j.size))
	binary.LittleEndian.PutUint64(b[16:], uint64(j.count))
}

func parseJob(b []byte) job {
	word := func(i int) int { return int(binary.LittleEndian.Uint64(b[8*i:])) }
	return job{word(0) == 1, word(1), word(2)}
}

// do is the client's part of a job. same says that the server is in this process.
func (j job) do(c net.Conn, buf []byte, same bool) (r result, err error) {
	j.put(buf)
	began, used := time.Now(), processorTime()
	if _, err := c.Write(buf[:jobSize]); err != nil {
		return r, err
	}
	for range j.count {
		if _, err := c.Write(buf[:j.size]); err != nil {
			return r, err
		}
		if j.back {
			if _, err := io.ReadFull(c, buf[:j.size]); err != nil {
				return r, err
			}
		}
	}
	var done [doneSize]byte
	if _, err := io.ReadFull(c, done[:]); err != nil {
		return r, err
	}
	r.wall, r.cpu = time.Since(began), processorTime()-used
	if !same {
		r.cpu += time.Duration(binary.LittleEndian.Uint64(done[:]))
	}
	return r, nil
}

// serve is the server's part of all jobs of a connection.
func serve(c net.Conn) error {
	defer c.Close()
	buf := make([]byte, maxMessage)
	for {
		if _, err := io.ReadFull(c, buf[:jobSize]); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		j := parseJob(buf)
		if j.size < 1 || j.size > maxMessage {
			return fmt.Errorf("messages of %d bytes", j.size)
		}
		used := processorTime()
		if err := j.take(c, buf); err != nil {
			return err
		}
		binary.LittleEndian.PutUint64(buf, uint64(processorTime()-used))
		if _, err := c.Write(buf[:doneSize]); err != nil {
			return err
		}
	}
}

// take is the server's part of one job.
func (j job) take(c net.Conn, buf []byte) error {
	if !j.back {
		for left := j.size * j.count; left > 0; {
			n, err := c.Read(buf[:min(left, j.size)])
			if err != nil {
				return err
			}
			left -= n
		}
		return nil
	}
	for range j.count {
		if _, err := io.ReadFull(c, buf[:j.size]); err != nil {
			return err
		}
		if _, err := c.Write(buf[:j.size]); err != nil {
			return err
		}
	}
	return nil
}
