package rdma

import (
	"slices"
	"sync"
	"time"

	"github.com/farwire/farwire/rdma/verbs"
)

// listing is the devices as they were read last. To read them is hundreds of files of
// sysfs for a card, which has a table of 256 GIDs: too much for each connection of many.
// It is safe for concurrent use; a nil one remembers nothing.
type listing struct {
	mu      sync.Mutex
	devices []verbs.Device
	read    time.Time
}

// listingAge is how long a listing is good. One that an open port says is wrong, by an
// asynchronous event, is forgotten before.
const listingAge = time.Second

// recent returns the devices, if they were read lately, or nil.
func (l *listing) recent() []verbs.Device {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.read) >= listingAge {
		l.devices = nil
	}
	return slices.Clone(l.devices) // a search notes what drivers they have
}

func (l *listing) remember(devices []verbs.Device) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.devices, l.read = slices.Clone(devices), time.Now()
}

func (l *listing) forget() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.devices = nil
}
