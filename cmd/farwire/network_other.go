//go:build !linux

package main

import (
	"net"
	"os"

	"github.com/farwire/farwire/internal/interpose"
)

// Where no program can be run no network is offered.

func networkFolder() string { return os.TempDir() }

func (networkSocket) listen() (net.Listener, error) { return nil, interpose.ErrUnsupported }

func (networkSocket) dial() (net.Conn, error) { return nil, interpose.ErrUnsupported }

func (networkSocket) close(ln net.Listener) error { return ln.Close() }

func checkPeer(net.Conn) error { return interpose.ErrUnsupported }
