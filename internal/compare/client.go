package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
)

// client has the connections to a server, which are made when a job needs them.
type client struct {
	dial    func() (net.Conn, error)
	inside  bool // the server is in this process
	control net.Conn
	conns   []net.Conn // of kind raw
	session *yamux.Session
	streams []net.Conn
	web     *http.Client
}

func newClient(dial func() (net.Conn, error), inside bool) (*client, error) {
	c := &client{dial: dial, inside: inside}
	var err error
	c.control, err = c.open(raw)
	c.web = &http.Client{Transport: &http.Transport{
		DialContext:         func(context.Context, string, string) (net.Conn, error) { return c.open(web) },
		MaxIdleConnsPerHost: maxWorkers,
		DisableCompression:  true,
	}}
	return c, err
}

// open makes a connection of a kind.
func (c *client) open(kind byte) (net.Conn, error) {
	conn, err := c.dial()
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write([]byte{kind}); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func (c *client) close() error {
	var errs []error
	if c.session != nil {
		errs = append(errs, c.session.Close())
	}
	for _, conn := range append(c.conns, c.control) {
		errs = append(errs, conn.Close())
	}
	c.web.CloseIdleConnections()
	return errors.Join(errs...)
}

// do does a job with all its workers at once.
func (c *client) do(j job) (r result, err error) {
	if j.kind == open {
		began, used := time.Now(), processorTime()
		took, err := c.openAll(j.workers)
		return result{time.Since(began), processorTime() - used, percentile(took, 50), percentile(took, 99)}, err
	}
	each, err := c.workers(j)
	if err != nil {
		return r, err
	}
	theirs, err := c.serverTime()
	if err != nil {
		return r, err
	}
	began, used := time.Now(), processorTime()
	errs := make([]error, len(each))
	var wg sync.WaitGroup
	for i, work := range each {
		part := j
		part.count = j.count/len(each) + btoi(i < j.count%len(each))
		wg.Go(func() { errs[i] = work(part) })
	}
	wg.Wait()
	r.wall, r.cpu = time.Since(began), processorTime()-used
	if err := errors.Join(errs...); err != nil {
		return r, err
	}
	after, err := c.serverTime()
	if !c.inside {
		r.cpu += after - theirs
	}
	return r, err
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// serverTime is the processor time that the server's process has used so far.
func (c *client) serverTime() (time.Duration, error) {
	return job{size: 1, flight: 1}.do(c.control, nil)
}

// workers are what does a job.
func (c *client) workers(j job) (each []func(job) error, err error) {
	switch j.kind {
	case turns:
		return c.inTurn(j.workers), nil
	case web:
		for range j.workers {
			each = append(each, c.get)
		}
		return each, nil
	case streams:
		if c.session == nil {
			conn, err := c.open(streams)
			if err != nil {
				return nil, err
			}
			if c.session, err = yamux.Client(conn, quiet()); err != nil {
				return nil, errors.Join(err, conn.Close())
			}
		}
		return doAll(&c.streams, j.workers, func() (net.Conn, error) { return c.session.Open() })
	}
	return doAll(&c.conns, j.workers, func() (net.Conn, error) { return c.open(raw) })
}

// doAll is how n connections do a job, of which it makes those that are missing.
func doAll(conns *[]net.Conn, n int, open func() (net.Conn, error)) (each []func(job) error, err error) {
	for len(*conns) < n {
		conn, err := open()
		if err != nil {
			return nil, err
		}
		*conns = append(*conns, conn)
	}
	for _, conn := range (*conns)[:n] {
		each = append(each, func(j job) error {
			_, err := j.do(conn, make([]byte, max(j.size, jobSize)))
			return err
		})
	}
	return each, nil
}

// get does its part of a job by HTTP.
func (c *client) get(j job) error {
	for range j.count {
		resp, err := c.web.Get(fmt.Sprintf("http://server/%d", j.size))
		if err != nil {
			return err
		}
		n, err := io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err != nil || n != int64(j.size) {
			return fmt.Errorf("%d bytes of %d: %w", n, j.size, err)
		}
	}
	return nil
}
