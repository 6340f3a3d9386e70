package softnic

import (
	"net/netip"

	"github.com/farwire/farwire/internal/link"
	"github.com/farwire/farwire/internal/pcap"
	"github.com/farwire/farwire/internal/roce"
	"github.com/farwire/farwire/rdma/verbs"
)

// openCapture opens the file that was asked for.
func (n *NIC) openCapture() (err error) {
	if n.cfg.PcapFile == "" {
		return nil
	}
	kind := pcap.Ethernet
	if n.cfg.LinkLayer == verbs.LinkInfiniBand {
		kind = pcap.InfiniBand
	}
	n.capture, err = pcap.Open(n.cfg.PcapFile, kind)
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
	if n.cfg.LinkLayer == verbs.LinkInfiniBand {
		l := pcap.Local{SrcLID: addrLID(p.Src), DstLID: addrLID(p.Dst)}
		if p.Global {
			l.SrcGID, l.DstGID, l.TClass = gidOf(p.Src), gidOf(p.Dst), p.TClass
		}
		n.capture.WriteLocal(&l, p.Buf[:len(p.Buf)-roce.ICRCSize]) // a subnet has another ICRC
		return
	}
	n.capture.Write(&pcap.Header{
		SrcMAC: macOf(p.Src), DstMAC: macOf(p.Dst), Src: p.Src, Dst: p.Dst, SrcPort: p.SrcPort, DstPort: p.DstPort,
		TClass: p.TClass, ID: p.ID, MayFragment: p.MayFragment,
	}, p.Buf)
}

// gidOf is the GID of the InfiniBand port that has an address.
func gidOf(addr netip.Addr) netip.Addr { return netip.AddrFrom16(linkLocalOf(guidOf(addr))) }
