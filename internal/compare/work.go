package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"
)

// A job is what a client does with its server. There and back means that each message is
// answered with one like it, else they only go one way.
type job struct {
	kind    byte // raw, streams or web
	workers int  // connections or streams at once
	flight  int  // messages of each that may be without their answer
	back    bool
	size    int // bytes of a message
	count   int // of all workers
}

// maxWorkers is the most workers that a job has.
const maxWorkers = 256

// result is what a job took: the time, and that of the processors in both processes; of
// connections that were made, what one took.
type result struct {
	wall, cpu       time.Duration
	median, slowest time.Duration // of which one in a hundred are slower
}

// The server is sent a job as three numbers, and when it is done sends what time of the
// processor its process took so far, in nanoseconds.
const (
	jobSize  = 3 * 8
	doneSize = 8
)

func (j job) put(b []byte) {
	binary.LittleEndian.PutUint64(b, uint64(btoi(j.back)))
	binary.LittleEndian.PutUint64(b[8:], uint64(j.size))
	binary.LittleEndian.PutUint64(b[16:], uint64(j.count))
}

func parseJob(b []byte) job {
	word := func(i int) int { return int(binary.LittleEndian.Uint64(b[8*i:])) }
	return job{back: word(0) == 1, size: word(1), count: word(2)}
}

// do is one worker's part of a job, which returns the server's processor time.
func (j job) do(c net.Conn, buf []byte) (theirs time.Duration, err error) {
	var head [jobSize]byte
	j.put(head[:])
	if _, err := c.Write(head[:]); err != nil {
		return 0, err
	}
	answered := 0
	for sent := range j.count {
		if j.back && sent-answered == j.flight {
			if _, err := io.ReadFull(c, buf[:j.size]); err != nil {
				return 0, err
			}
			answered++
		}
		if _, err := c.Write(buf[:j.size]); err != nil {
			return 0, err
		}
	}
	for ; j.back && answered < j.count; answered++ {
		if _, err := io.ReadFull(c, buf[:j.size]); err != nil {
			return 0, err
		}
	}
	var done [doneSize]byte
	if _, err := io.ReadFull(c, done[:]); err != nil {
		return 0, err
	}
	return time.Duration(binary.LittleEndian.Uint64(done[:])), nil
}

// serve is the server's part of all jobs of a connection.
func serve(c net.Conn) error {
	defer c.Close()
	buf := make([]byte, jobSize)
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
		if len(buf) < j.size {
			buf = make([]byte, j.size)
		}
		if err := j.take(c, buf); err != nil {
			return err
		}
		binary.LittleEndian.PutUint64(buf, uint64(processorTime()))
		if _, err := c.Write(buf[:doneSize]); err != nil {
			return err
		}
	}
}

// take is the server's part of one job.
func (j job) take(c net.Conn, buf []byte) error {
	if !j.back {
		for left := j.size * j.count; left > 0; {
			n, err := c.Read(buf[:min(left, len(buf))])
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
