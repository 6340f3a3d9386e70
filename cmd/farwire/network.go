package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"

	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

// A run offers its network to other runs on a Unix socket, which only its user may use.
// They join it by a trunk each: the packets travel, not the programs. A run can so serve
// its own programs only, which it is the parent of, as a system may demand of who reads
// a process's memory.

// defaultNetwork is the name of the network that a run offers, and joins, if told no other.
const defaultNetwork = "default"

// maxJoined is how many runs may be in another's network at a time.
const maxJoined = 64

// errTaken is the error of listening where another process does.
var errTaken = errors.New("the socket is another farwire's")

// errEnded is why NICs that have joined a network reach nobody any more.
var errEnded = errors.New("the farwire that offered the network has ended")

// networkSocket is where a network is offered.
type networkSocket struct {
	path    string
	private bool // in a folder of this tool's own, which is made and removed
}

// networkSocketOf is that of a name, or of a path, which has a slash.
func networkSocketOf(name string) (networkSocket, error) {
	if strings.Contains(name, "/") {
		return networkSocket{path: name}, nil
	}
	if name == "" || name[0] == '.' || strings.ContainsRune(name, filepath.Separator) {
		return networkSocket{}, fmt.Errorf("network name %q", name)
	}
	return networkSocket{filepath.Join(networkFolder(), name+".sock"), true}, nil
}

// networkFlags defines the flags of what network a run is in.
func (s *settings) networkFlags(flags *flag.FlagSet) {
	flags.StringVar(&s.network, "network", "", "offer the network to other runs by a `name` or by the path of a socket;\nwithout this by the name "+defaultNetwork+", if no other run does")
	flags.BoolFunc("join", "be in the network that another run or vm-nic offers; -join=NAME, or a path, if it is not "+defaultNetwork, func(name string) error {
		switch name {
		case "":
			return errors.New("no name")
		case "true": // the flag alone
			name = defaultNetwork
		case "false": // as flags of this kind are switched off
			name = ""
		}
		s.join = name
		return nil
	})
}

// startNetwork makes the network of a configuration, which is offered or joined. The
// function returned ends it, once the NICs are closed.
func (s *settings) startNetwork(cfg *softnic.Config) (end func() error, err error) {
	name := defaultNetwork
	for _, given := range []string{s.network, s.join} {
		if given != "" {
			name = given
		}
	}
	at, err := networkSocketOf(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.command, err)
	}
	if s.join != "" {
		if end, err = joinNetwork(cfg, name, at); err != nil {
			return nil, fmt.Errorf("%s: %w", s.command, err)
		}
		return end, nil
	}
	cfg.Network = softnic.NewNetwork()
	ln, err := at.listen()
	switch {
	case err == nil:
		return offer(cfg, at, ln), nil
	case s.network != "":
		return nil, fmt.Errorf("%s: network %s: %w", s.command, name, err)
	}
	cfg.Logger.Info("the network is not offered", "name", name, "reason", err)
	return func() error { return nil }, nil
}

// networkLabel tells networks apart whose NICs could not reach each other.
func networkLabel(cfg *softnic.Config) string {
	if cfg.LinkLayer == verbs.LinkInfiniBand {
		return "InfiniBand"
	}
	return "Ethernet"
}

func joinNetwork(cfg *softnic.Config, name string, at networkSocket) (end func() error, err error) {
	conn, err := at.dial()
	if err != nil {
		return nil, fmt.Errorf("no network %s, which another run must offer: %w", name, err)
	}
	if cfg.Network, err = softnic.JoinNetwork(conn, networkLabel(cfg)); err != nil {
		return nil, fmt.Errorf("network %s: %w", name, err)
	}
	return cfg.Network.Close, nil
}

// offer lets others join the network until the function returned is called.
func offer(cfg *softnic.Config, at networkSocket, ln net.Listener) (end func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { acceptRuns(ctx, cfg, ln, &all) })
	return func() error {
		cancel()
		err := at.close(ln)
		all.Wait()
		return err
	}
}

func acceptRuns(ctx context.Context, cfg *softnic.Config, ln net.Listener, all *sync.WaitGroup) {
	slots := make(chan struct{}, maxJoined)
	for {
		conn, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			err = checkPeer(conn)
		}
		if err != nil {
			refuse(cfg.Logger, conn, err)
			if conn == nil {
				return
			}
			continue
		}
		select {
		case slots <- struct{}{}:
		default:
			refuse(cfg.Logger, conn, fmt.Errorf("%d runs have joined", maxJoined))
			continue
		}
		all.Go(func() {
			defer func() { <-slots }()
			if err := cfg.Network.Serve(ctx, conn, networkLabel(cfg)); err != nil {
				cfg.Logger.Warn("a run that joined", "error", err)
			}
		})
	}
}

func refuse(log *slog.Logger, conn net.Conn, err error) {
	log.Warn("a run cannot join", "reason", err)
	if conn != nil {
		_ = conn.Close()
	}
}

// hasEnded reports whether a network that was joined is gone.
func hasEnded(n *softnic.Network) bool {
	select {
	case <-n.Done():
		return true
	default:
		return false
	}
}
