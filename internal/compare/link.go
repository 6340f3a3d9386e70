package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"

	"github.com/farwire/farwire/rdma"
	"github.com/farwire/farwire/rdma/softnic"
)

// A link is a way for two processes to reach each other.
type link struct {
	name    string
	softnic string // how the software NIC is set up, if the connection is over one
	inside  bool   // it is for one process
	listen  func() (net.Listener, error)
	dial    func(address string) (net.Conn, error)
}

// base is the link that others are compared with.
const base = "tcp"

var links = []link{
	{name: "memory", softnic: "link=mem", inside: true, listen: listenRDMA, dial: dialRDMA},
	{name: "shm", softnic: "link=udp", listen: listenRDMA, dial: dialRDMA},
	{name: "udp", softnic: "link=udp,shm=off", listen: listenRDMA, dial: dialRDMA},
	{name: base, listen: func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") },
		dial: func(address string) (net.Conn, error) { return net.Dial("tcp", address) }},
	{name: "unix", listen: listenUnix, dial: func(address string) (net.Conn, error) { return net.Dial("unix", address) }},
}

func listenRDMA() (net.Listener, error) {
	lc := rdma.ListenConfig{Config: connectionConfig()}
	return lc.Listen(context.Background(), "rdma", "127.0.0.1:0")
}

func dialRDMA(address string) (net.Conn, error) {
	d := rdma.Dialer{Config: connectionConfig()}
	return d.Dial("rdma", address)
}

// environment is what the link's processes have in theirs.
func (l *link) environment() []string {
	return []string{rdma.DeviceEnv + "=" + rdma.Soft, softnic.EnvVar + "=" + l.softnic}
}

// linkNamed is the index of the link with a name, or negative.
func linkNamed(name string) int {
	return slices.IndexFunc(links, func(l link) bool { return l.name == name })
}

func linkNames() (names []string) {
	for _, l := range links {
		names = append(names, l.name)
	}
	return names
}

// find returns the links with these names, and the one they are compared with.
func find(names []string) (found []*link, err error) {
	for _, name := range names {
		if linkNamed(name) < 0 {
			return nil, fmt.Errorf("unknown link %q: there are %v", name, linkNames())
		}
	}
	for i := range links {
		if name := links[i].name; name == base || slices.Contains(names, name) {
			found = append(found, &links[i])
		}
	}
	return found, nil
}

// listenUnix listens in a directory of its own, which goes with the listener.
func listenUnix() (net.Listener, error) {
	dir, err := os.MkdirTemp("", "compare")
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return unixListener{ln, dir}, nil
}

type unixListener struct {
	net.Listener
	dir string
}

func (l unixListener) Close() error {
	err := l.Listener.Close()
	os.RemoveAll(l.dir)
	return err
}
