package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// networkFolder is the folder of the sockets of this user's networks.
func networkFolder() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "farwire")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("farwire-%d", os.Geteuid()))
}

// listen takes the socket, also that of a run that is dead. It fails with errTaken for
// that of a run that is not.
func (n networkSocket) listen() (net.Listener, error) {
	const tries = 10 // another run that ends removes the folder
	for try := 1; ; try++ {
		ln, err := n.tryListen()
		if err == nil || !n.private || !errors.Is(err, fs.ErrNotExist) || try == tries {
			return ln, err
		}
	}
}

// tryListen looks and takes with the folder locked, so that of two runs that find a dead
// one's socket only one removes it.
func (n networkSocket) tryListen() (net.Listener, error) {
	dir := filepath.Dir(n.path)
	if n.private {
		if err := makePrivate(dir); err != nil {
			return nil, err
		}
	}
	lock, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := lockSoon(int(lock.Fd())); err != nil {
		return nil, fmt.Errorf("%s is locked: %w", dir, err)
	}
	if conn, err := net.Dial("unix", n.path); err == nil {
		_ = conn.Close()
		return nil, errTaken
	} else if i, stat := os.Lstat(n.path); stat == nil && i.Mode().Type() == fs.ModeSocket && errors.Is(err, unix.ECONNREFUSED) {
		_ = os.Remove(n.path)
	}
	ln, err := net.Listen("unix", n.path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(n.path, 0o600); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return ln, nil
}

// lockSoon locks a folder, which others hold for moments only. In a folder that is not
// this user's own, anybody may hold it for longer: that is not waited for.
func lockSoon(fd int) error {
	const tries, pause = 200, 10 * time.Millisecond
	for try := 1; ; try++ {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || !errors.Is(err, unix.EWOULDBLOCK) || try == tries {
			return os.NewSyscallError("flock", err)
		}
		time.Sleep(pause)
	}
}

// makePrivate makes a folder for this user alone, and checks one that is there.
func makePrivate(dir string) error {
	if err := os.Mkdir(dir, 0o700); err == nil || !errors.Is(err, fs.ErrExist) {
		return err
	}
	i, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !i.IsDir() || i.Mode().Perm()&0o077 != 0 || int(i.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
		return fmt.Errorf("%s is not a folder of this user alone", dir)
	}
	return nil
}

// close ends listening and removes the socket, and its folder if that is empty.
func (n networkSocket) close(ln net.Listener) error {
	err := ln.Close()
	if n.private {
		_ = os.Remove(filepath.Dir(n.path))
	}
	return err
}

// dial connects to a run that offers its network.
func (n networkSocket) dial() (net.Conn, error) {
	conn, err := net.Dial("unix", n.path)
	if err != nil {
		return nil, err
	}
	if err := checkPeer(conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// checkPeer refuses other users' processes.
func checkPeer(conn net.Conn) error {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) { peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(err, failed); err != nil {
		return fmt.Errorf("who is there: %w", err)
	}
	return checkUser(int(peer.Uid))
}

func checkUser(uid int) error {
	if uid != os.Geteuid() {
		return fmt.Errorf("user %d is there, not %d", uid, os.Geteuid())
	}
	return nil
}
