package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"

	"github.com/farwire/farwire/internal/connectx"
	"github.com/farwire/farwire/internal/vfiouser"
	"github.com/farwire/farwire/rdma/softnic"
)

// serveVMs serves a NIC to the virtual machines that connect to a socket, one after
// the other, until ctx is done, or, with the cause, until there is no machine and
// accepting is done, which ctx is the parent of.
func serveVMs(ctx, accepting context.Context, path string, nic *softnic.NIC, log *slog.Logger, stdout io.Writer) error {
	at := networkSocket{path: path}
	ln, err := at.listen()
	if err != nil {
		return fmt.Errorf("vm-nic: %w", err)
	}
	stop := context.AfterFunc(accepting, func() { _ = ln.Close() })
	defer stop()
	fmt.Fprintf(stdout, "vm-nic: waiting at %s\n%s", path, qemuNote(ctx))
	for {
		conn, err := ln.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			if accepting.Err() != nil {
				return context.Cause(accepting)
			}
			return errors.Join(fmt.Errorf("vm-nic: %w", err), at.close(ln))
		}
		if err := serveVM(ctx, conn.(*net.UnixConn), nic, log); err != nil {
			log.Warn("virtual machine", "error", err)
		}
	}
}

// serveVM serves a NIC to one machine for as long as that lives.
func serveVM(ctx context.Context, conn *net.UnixConn, nic *softnic.NIC, log *slog.Logger) error {
	if err := checkPeer(conn); err != nil {
		return errors.Join(err, conn.Close())
	}
	s, err := vfiouser.New(conn, connectx.Layout())
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	d, err := connectx.New(connectx.Config{NIC: nic, Memory: s.Memory(), Raise: s.Interrupts().Raise, Logger: log})
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	err = s.Serve(d)
	if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, d.Close())
}
