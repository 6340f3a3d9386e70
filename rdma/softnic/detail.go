package softnic

import (
	"fmt"

	"github.com/farwire/farwire/internal/prm"
	"github.com/farwire/farwire/internal/rc"
)

// A detail is the vendor syndrome of this NIC's error completions: the cause in
// finer terms than the syndrome. Values below 0x20 are those of prm.Reason.
type detail uint8

// The details.
const (
	detailNone detail = 0

	detailIndex      detail = 0x20 // the entry's index is not the queue's counter
	detailQPN        detail = 0x21 // the entry names another queue pair
	detailQueueGone  detail = 0x22 // the queue's memory is not mapped
	detailTooLong    detail = 0x23 // the message is longer than a message can be
	detailSegments   detail = 0x24 // more data segments than the device takes
	detailBlueFlame  detail = 0x25 // the doorbell carried another entry than the queue
	detailOverposted detail = 0x26 // more entries posted than the queue holds
	detailReads      detail = 0x27 // a read or atomic, but the queue pair may have none outstanding

	detailShared detail = 0x28 // the shared receive queue has failed
	detailLink   detail = 0x29 // the entry leads to one that the shared receive queue does not have

	detailKey    detail = 0x30 // the key names no region
	detailDomain detail = 0x31 // the region is of another protection domain
	detailBounds detail = 0x32 // the access leaves the region
	detailRights detail = 0x33 // the region does not allow the access
	detailGone   detail = 0x34 // the region's memory is not mapped any more

	// What the protocol reported; the values are those ConnectX NICs are known to give.
	detailRetries detail = 0x81
	detailRNR     detail = 0x87
	detailRemote  detail = 0x88
	detailFlushed detail = 0xf9
)

func (d detail) String() string {
	switch d {
	case detailNone:
		return "no detail"
	case detailIndex:
		return "entry index is not the queue's counter"
	case detailQPN:
		return "entry names another queue pair"
	case detailQueueGone:
		return "queue memory not mapped"
	case detailTooLong:
		return "message too long"
	case detailSegments:
		return "too many data segments"
	case detailBlueFlame:
		return "doorbell carried another entry than the queue"
	case detailOverposted:
		return "more entries posted than the queue holds"
	case detailReads:
		return "no reads or atomics allowed"
	case detailShared:
		return "shared receive queue has failed"
	case detailLink:
		return "link beyond the shared receive queue"
	case detailKey:
		return "unknown key"
	case detailDomain:
		return "key of another protection domain"
	case detailBounds:
		return "access out of bounds"
	case detailRights:
		return "region does not allow the access"
	case detailGone:
		return "region memory not mapped"
	case detailRetries:
		return "retries exceeded"
	case detailRNR:
		return "receiver-not-ready retries exceeded"
	case detailRemote:
		return "refused by the peer"
	case detailFlushed:
		return "flushed"
	}
	if d < detailIndex {
		return prm.Reason(d).String()
	}
	return fmt.Sprintf("detail %#02x", uint8(d))
}

// detailOf is the detail of a syndrome for which no finer cause was noted.
func detailOf(s rc.Syndrome) detail {
	switch s {
	case rc.Flushed:
		return detailFlushed
	case rc.RetriesExceeded:
		return detailRetries
	case rc.NotReadyRetriesExceeded:
		return detailRNR
	case rc.RemoteAccess, rc.RemoteInvalidRequest, rc.RemoteOperation:
		return detailRemote
	}
	return detailNone
}
