package softnic

import (
	"math"
	"os"
	"syscall"

	"github.com/farwire/farwire/internal/hostmem"
	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/verbs"
)

// The NIC's clock counts nanoseconds from when the NIC was made, so that the page that
// tells how it relates to the system's clock needs no updates. The page with the clock
// itself, which goes on by itself, is not modelled; nor is the response that offers it.

// timestampMask are the bits of a timestamp.
const timestampMask = math.MaxInt64

// mapsClockInfo reports whether a mapping is of the page about the clock.
func mapsClockInfo(offset int64) bool {
	command, _, ok := prm.ParseMapOffset(offset, pageSize())
	return ok && command == prm.MapClockInfo
}

// clockMappable judges such a mapping (Linux mlx5_ib_mmap_clock_info_page).
func (f *file) clockMappable(offset int64, length int) error {
	if err := f.mayMap(length); err != nil {
		return err
	}
	if _, version, _ := prm.ParseMapOffset(offset, pageSize()); version != prm.ClockInfoV1 {
		f.nic.warn("mapping refused", "offset", offset, "clock information of version", version)
		return enotsup
	}
	return nil
}

// putClockInfo writes the page.
func (n *NIC) putClockInfo(page []byte) {
	info := prm.ClockInfo{Nanoseconds: uint64(n.epoch.UnixNano()), Mult: 1, Mask: timestampMask, OverflowPeriod: timestampMask / 2}
	copy(page, uapi.Bytes(&info))
}

// mapClock is Map for the page about the clock.
func (f *file) mapClock(offset int64, length int) (*verbs.Page, error) {
	err := f.clockMappable(offset, length)
	f.traceMap(os.Getpid(), offset, length, 0, err)
	if err != nil {
		return nil, err
	}
	mem, err := hostmem.Alloc(length)
	if err != nil {
		return nil, syscall.ENOMEM
	}
	f.nic.putClockInfo(mem.Bytes())
	f.refs++
	return verbs.NewPage(mem.Bytes(), nil, func() error {
		f.nic.lock()
		defer f.nic.unlock()
		f.put()
		return mem.Free()
	}), nil
}

// mapClock is Map for the page about the clock, which is made when it is first mapped.
func (p *ProcessFile) mapClock(process int, offset int64, length int) error {
	f := p.f
	err := f.clockMappable(offset, length)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && p.clock == nil {
		if p.clock, err = f.pages.(*processPages).from.Page(offset); err == nil {
			f.nic.putClockInfo(p.clock.Bytes())
		}
	}
	f.traceMap(process, offset, length, 0, err)
	if err != nil {
		return errnoOf(err)
	}
	return nil
}
