package softnic

import (
	"errors"

	"github.com/farwire/farwire/internal/link"
	"github.com/farwire/farwire/internal/pcap"
	"github.com/farwire/farwire/rdma/verbs"
)

// errNoEthernet is why packets of an InfiniBand port cannot be captured.
var errNoEthernet = errors.New("capture: a file of Ethernet packets cannot hold those of an InfiniBand port")

// openCapture opens the file that was asked for.
func (n *NIC) openCapture() (err error) {
	switch {
	case n.cfg.PcapFile == "":
		return nil
	case n.cfg.LinkLayer == verbs.LinkInfiniBand:
		return errNoEthernet
	}
	n.capture, err = pcap.Open(n.cfg.PcapFile)
	return err
}

func (n *NIC) closeCapture() error {
	if n.capture == nil {
		return nil
	}
	return n.capture.Close()
}

// tapped is a way to open a link whose packets are captured, if they are to be.
func (n *NIC) tapped(open func(link.Receiver) (link.Link, error)) func(link.Receiver) (link.Link, error) {
	if n.capture == nil {
		return open
	}
	return func(r link.Receiver) (link.Link, error) { return link.Tap(open, n.captured, r) }
}

func (n *NIC) captured(p link.Seen) {
	n.capture.Write(&pcap.Header{
		SrcMAC: macOf(p.Src), DstMAC: macOf(p.Dst), Src: p.Src, Dst: p.Dst, SrcPort: p.SrcPort, DstPort: p.DstPort,
		TClass: p.TClass, ID: p.ID, MayFragment: p.MayFragment,
	}, p.Buf)
}
