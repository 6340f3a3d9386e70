package vfiouser

import (
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Interrupts are the device's MSI-X vectors. All methods are safe for concurrent
// use.
//
// A vector's descriptor is the client's eventfd. One whose counter is full is not
// written to, so that it cannot hold the device up, whatever the client has made of it.
type Interrupts struct {
	mu      sync.Mutex
	vectors []int // descriptors; -1: none
}

func newInterrupts(n int) *Interrupts {
	v := &Interrupts{vectors: make([]int, n)}
	for i := range v.vectors {
		v.vectors[i] = -1
	}
	return v
}

// Raise raises a vector. One that the client does not listen to, or that there is
// not, is not raised, as one of a device whose MSI-X is off.
func (i *Interrupts) Raise(vector int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if vector < 0 || vector >= len(i.vectors) || i.vectors[vector] < 0 {
		return
	}
	// A full counter is an interrupt that is pending anyway. The client shares the
	// descriptor's flags, and may have made it block again.
	ready := []unix.PollFd{{Fd: int32(i.vectors[vector]), Events: unix.POLLOUT}}
	if n, err := unix.Poll(ready, 0); n == 1 && err == nil && ready[0].Revents == unix.POLLOUT {
		_, _ = unix.Write(i.vectors[vector], []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

// set carries out DEVICE_SET_IRQS with the data that follows it. It takes over fds
// if it succeeds.
func (i *Interrupts) set(r setIRQs, data []byte, fds []int) error {
	switch {
	case r.index != irqMSIX || r.flags&irqActionMask != irqActionTrigger || r.flags&^(irqDataMask|irqActionMask) != 0:
		return syscall.EINVAL
	case uint64(r.start)+uint64(r.count) > uint64(len(i.vectors)):
		return syscall.EINVAL
	}
	switch r.flags & irqDataMask {
	case irqDataNone:
		if len(fds) != 0 {
			return syscall.EINVAL
		}
		if r.count == 0 {
			i.close()
			return nil
		}
		for v := range r.count {
			i.Raise(int(r.start + v))
		}
		return nil
	case irqDataBool:
		if uint64(len(data)) != uint64(r.count) || len(fds) != 0 {
			return syscall.EINVAL
		}
		for v, b := range data {
			if b != 0 {
				i.Raise(int(r.start) + v)
			}
		}
		return nil
	case irqDataEventfd:
		return i.attach(r, fds)
	}
	return syscall.EINVAL
}

// attach gives each vector of a range its descriptor, or takes them all away.
func (i *Interrupts) attach(r setIRQs, fds []int) error {
	if len(fds) != 0 && len(fds) != int(r.count) {
		return syscall.EINVAL
	}
	for _, fd := range fds {
		if err := unix.SetNonblock(fd, true); err != nil {
			return err
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for v := range int(r.count) {
		fd := -1
		if len(fds) != 0 {
			fd = fds[v]
		}
		i.replace(int(r.start)+v, fd)
	}
	return nil
}

func (i *Interrupts) replace(vector, fd int) {
	if old := i.vectors[vector]; old >= 0 {
		_ = unix.Close(old)
	}
	i.vectors[vector] = fd
}

// close takes all descriptors away.
func (i *Interrupts) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for v := range i.vectors {
		i.replace(v, -1)
	}
}
