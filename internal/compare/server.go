package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"

	"github.com/hashicorp/yamux"
)

// The first byte of a connection says what goes over it.
const (
	raw     = 'r' // jobs
	streams = 'y' // yamux, with jobs on each stream
	web     = 'h' // HTTP: GET /n returns n bytes
)

// server serves every connection of a listener.
type server struct {
	ln  net.Listener
	web *oneByOne

	work sync.WaitGroup
	mu   sync.Mutex
	errs []error
}

func newServer(ln net.Listener) *server {
	s := &server{ln: ln, web: &oneByOne{conns: make(chan net.Conn), closed: make(chan struct{}), Listener: ln}}
	h := &http.Server{Handler: http.HandlerFunc(page)}
	s.work.Go(func() { s.failed(h.Serve(s.web)) })
	s.work.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				s.failed(errors.Join(err, h.Close()))
				return
			}
			s.work.Go(func() { s.failed(s.serve(c)) })
		}
	})
	return s
}

// failed keeps an error, unless it is that all is over.
func (s *server) failed(err error) {
	if err == nil || errors.Is(err, net.ErrClosed) || errors.Is(err, http.ErrServerClosed) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs = append(s.errs, err)
}

// end returns once the listener is closed, which the caller does, and all clients have left.
func (s *server) end() error {
	s.work.Wait()
	return errors.Join(s.errs...)
}

func (s *server) serve(c net.Conn) error {
	var kind [1]byte
	if _, err := io.ReadFull(c, kind[:]); err != nil {
		c.Close()
		return nil // it only looked
	}
	switch kind[0] {
	case raw:
		return serve(c)
	case web:
		select {
		case s.web.conns <- c:
		case <-s.web.closed:
			c.Close()
		}
		return nil
	case streams:
		session, err := yamux.Server(c, quiet())
		if err != nil {
			return err
		}
		defer session.Close()
		for {
			stream, err := session.AcceptStream()
			if err != nil {
				return nil // the client has closed the session
			}
			s.work.Go(func() { s.failed(serve(stream)) })
		}
	}
	c.Close()
	return fmt.Errorf("connection of kind %q", kind)
}

func quiet() *yamux.Config {
	c := yamux.DefaultConfig()
	c.LogOutput = io.Discard
	return c
}

func page(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.URL.Path[1:])
	if err != nil || n < 0 || n > maxMessage {
		http.Error(w, "no such size", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(n))
	w.Write(content[:n])
}

var content [maxMessage]byte

// oneByOne is a listener for connections that were accepted by another.
type oneByOne struct {
	net.Listener // for its address
	conns        chan net.Conn
	once         sync.Once
	closed       chan struct{}
}

func (l *oneByOne) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *oneByOne) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}
