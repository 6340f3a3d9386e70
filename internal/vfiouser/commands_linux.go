package vfiouser

import (
	"encoding/json"
	"fmt"
	"syscall"
)

// command is how a command is carried out: do has the body, of size bytes at least,
// appends to Server.reply, and reports whether it took over the descriptors.
type command struct {
	size int
	do   func(s *Server, body []byte, fds []int) (kept bool, err error)
}

var commands = map[uint16]command{
	cmdVersion:     {versionSize, (*Server).version},
	cmdDMAMap:      {dmaMapSize, (*Server).dmaMap},
	cmdDMAUnmap:    {dmaUnmapSize, (*Server).dmaUnmap},
	cmdGetInfo:     {deviceInfoSize, (*Server).deviceInfo},
	cmdRegionInfo:  {regionInfoSize, (*Server).regionInfo},
	cmdIRQInfo:     {irqInfoSize, (*Server).irqInfo},
	cmdSetIRQs:     {setIRQsSize, (*Server).setIRQs},
	cmdRegionRead:  {accessSize, (*Server).regionRead},
	cmdRegionWrite: {accessSize, (*Server).regionWrite},
	cmdReset:       {0, (*Server).reset},
}

// capabilities is the JSON text of the server's half of the negotiation
// (vfio-user.rst, "VFIO_USER_VERSION").
type capabilities struct {
	Capabilities struct {
		MaxDescriptors int `json:"max_msg_fds"`
		MaxTransfer    int `json:"max_data_xfer_size"`
		MaxMappings    int `json:"max_dma_maps"`
	} `json:"capabilities"`
}

// The version of the protocol. The client says the newest it knows, and whoever
// knows less has its way with the minor number.
const (
	versionMajor = 0
	versionMinor = 1
)

// version agrees on the protocol. What the client can do is not asked for: the
// server sends it no commands.
func (s *Server) version(body []byte, _ []int) (bool, error) {
	major, minor := le.Uint16(body), le.Uint16(body[2:])
	if s.agreed {
		return false, fmt.Errorf("%w: second version message", ErrProtocol)
	}
	if major != versionMajor {
		return false, syscall.EINVAL
	}
	var c capabilities
	c.Capabilities.MaxDescriptors = maxDescriptors
	c.Capabilities.MaxTransfer = maxTransfer
	c.Capabilities.MaxMappings = maxMappings
	text, err := json.Marshal(c)
	if err != nil {
		return false, err
	}
	s.reply = le.AppendUint16(s.reply, versionMajor)
	s.reply = le.AppendUint16(s.reply, min(minor, versionMinor))
	s.reply = append(s.reply, text...)
	s.reply = append(s.reply, 0)
	s.agreed = true
	return false, nil
}

// dmaMap takes memory in. The descriptor is not needed once it is mapped.
func (s *Server) dmaMap(body []byte, fds []int) (bool, error) {
	fd := -1
	switch len(fds) {
	case 0:
	case 1:
		fd = fds[0]
	default:
		return false, syscall.EINVAL
	}
	return false, s.memory.add(parseDMAMap(body), fd)
}

func (s *Server) dmaUnmap(body []byte, _ []int) (bool, error) {
	if err := s.memory.remove(parseDMAUnmap(body)); err != nil {
		return false, err
	}
	s.reply = append(s.reply, body[:dmaUnmapSize]...)
	return false, nil
}

func (s *Server) words(v ...uint32) {
	for _, w := range v {
		s.reply = le.AppendUint32(s.reply, w)
	}
}

func (s *Server) deviceInfo(_ []byte, _ []int) (bool, error) {
	s.words(deviceInfoSize, deviceReset|devicePCI, NumRegions, numIRQs)
	return false, nil
}

func (s *Server) regionInfo(body []byte, _ []int) (bool, error) {
	index := le.Uint32(body[8:])
	if index >= NumRegions {
		return false, syscall.EINVAL
	}
	size, flags := s.config.Regions[index], uint32(0)
	if size > 0 {
		flags = regionRead | regionWrite
	}
	s.words(regionInfoSize, flags, index, 0)
	s.reply = le.AppendUint64(s.reply, size)
	s.reply = le.AppendUint64(s.reply, 0) // offset in a mappable file: there is none
	return false, nil
}

func (s *Server) irqInfo(body []byte, _ []int) (bool, error) {
	index := le.Uint32(body[8:])
	switch {
	case index >= numIRQs:
		return false, syscall.EINVAL
	case index == irqMSIX && s.config.Vectors > 0:
		s.words(irqInfoSize, irqEventfd|irqNoResize, index, uint32(s.config.Vectors))
	default:
		s.words(irqInfoSize, 0, index, 0)
	}
	return false, nil
}

func (s *Server) setIRQs(body []byte, fds []int) (bool, error) {
	r := parseSetIRQs(body)
	err := s.interrupts.set(r, body[setIRQsSize:], fds)
	return err == nil, err
}

// access judges an access to a region; its data follow it in a body of size bytes.
func (s *Server) access(body []byte) (access, error) {
	a := parseAccess(body)
	if a.region >= NumRegions || a.count > maxTransfer {
		return a, syscall.EINVAL
	}
	size := s.config.Regions[a.region]
	if a.offset > size || uint64(a.count) > size-a.offset {
		return a, syscall.EINVAL
	}
	return a, nil
}

func (s *Server) regionRead(body []byte, _ []int) (bool, error) {
	a, err := s.access(body)
	if err != nil {
		return false, err
	}
	s.reply = append(s.reply, body[:accessSize]...)
	s.reply = append(s.reply, make([]byte, a.count)...)
	s.device.Read(int(a.region), a.offset, s.reply[headerSize+accessSize:])
	return false, nil
}

func (s *Server) regionWrite(body []byte, _ []int) (bool, error) {
	a, err := s.access(body)
	if err != nil {
		return false, err
	}
	if len(body)-accessSize != int(a.count) {
		return false, syscall.EINVAL
	}
	s.device.Write(int(a.region), a.offset, body[accessSize:])
	s.reply = append(s.reply, body[:accessSize]...)
	return false, nil
}

func (s *Server) reset(_ []byte, _ []int) (bool, error) {
	s.device.Reset()
	return false, nil
}
