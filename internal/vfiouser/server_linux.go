package vfiouser

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// Server serves one device to one client: the life of a connection is the life of
// the device.
type Server struct {
	conn       *net.UnixConn
	config     Config
	memory     Memory
	interrupts *Interrupts

	device  Device
	agreed  bool // on a version
	head    [headerSize]byte
	control []byte // room for what comes beside the data
	body    []byte
	reply   []byte
}

// New makes the server of a client that has connected. The caller runs Serve, which
// takes over the connection.
func New(conn *net.UnixConn, config Config) (*Server, error) {
	if err := config.check(); err != nil {
		return nil, fmt.Errorf("vfiouser: %w", err)
	}
	return &Server{
		conn: conn, config: config, interrupts: newInterrupts(config.Vectors),
		control: make([]byte, unix.CmsgSpace(4*maxDescriptors)),
	}, nil
}

// Memory is the guest's memory.
func (s *Server) Memory() *Memory { return &s.memory }

// Interrupts are the device's vectors.
func (s *Server) Interrupts() *Interrupts { return s.interrupts }

// Serve answers the client until it hangs up, and returns nil then; or until it
// breaks the protocol, an error that wraps [ErrProtocol]; or until the connection
// fails or is closed. It returns when the guest's memory is unmapped and all
// descriptors and the connection are closed: uses of Memory and Interrupts that come later
// fail or do nothing.
func (s *Server) Serve(d Device) (err error) {
	s.device = d
	defer func() {
		s.interrupts.close()
		err = errors.Join(err, s.memory.close())
		if cerr := s.conn.Close(); !errors.Is(cerr, net.ErrClosed) {
			err = errors.Join(err, cerr)
		}
	}()
	for {
		h, body, fds, err := s.receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("vfiouser: %w", err)
		}
		if err := s.answer(h, body, fds); err != nil {
			return fmt.Errorf("vfiouser: %w", err)
		}
	}
}

// receive reads one message. The caller closes fds. body is valid until the next
// message.
func (s *Server) receive() (h header, body []byte, fds []int, err error) {
	n, nc, flags, _, err := s.conn.ReadMsgUnix(s.head[:], s.control)
	if err != nil {
		return h, nil, nil, err
	}
	fds, err = descriptors(s.control[:nc], flags)
	defer func() {
		if err != nil {
			closeAll(fds)
			fds = nil
		}
	}()
	if err != nil {
		return h, nil, fds, err
	}
	if n == 0 {
		return h, nil, fds, io.EOF
	}
	if _, err = io.ReadFull(s.conn, s.head[n:]); err != nil {
		return h, nil, fds, cut(err)
	}
	if h, err = parseHeader(s.head[:]); err != nil {
		return h, nil, fds, err
	}
	size := int(h.size) - headerSize
	if cap(s.body) < size {
		s.body = make([]byte, size)
	}
	body = s.body[:size]
	if _, err = io.ReadFull(s.conn, body); err != nil {
		return h, nil, fds, cut(err)
	}
	return h, body, fds, nil
}

// cut is the error of a message that did not come whole.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: message is cut short", ErrProtocol)
	}
	return err
}

// descriptors are those that came with a message.
func descriptors(control []byte, flags int) (fds []int, err error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	for i := range messages {
		f, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return fds, fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		fds = append(fds, f...)
	}
	if flags&unix.MSG_CTRUNC != 0 {
		return fds, fmt.Errorf("%w: more than %d descriptors with a message", ErrProtocol, maxDescriptors)
	}
	return fds, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// answer carries one command out. Its error ends the connection.
func (s *Server) answer(h header, body []byte, fds []int) error {
	kept := false
	defer func() {
		if !kept {
			closeAll(fds)
		}
	}()
	if !s.agreed && h.command != cmdVersion {
		return fmt.Errorf("%w: command %d before a version is agreed on", ErrProtocol, h.command)
	}
	s.reply = append(s.reply[:0], make([]byte, headerSize)...)
	c, known := commands[h.command]
	var err error
	switch {
	case !known:
		err = syscall.EOPNOTSUPP
	case len(body) < c.size:
		err = syscall.EINVAL
	default:
		kept, err = c.do(s, body, fds)
	}
	if errors.Is(err, ErrProtocol) {
		return err
	}
	return s.send(h, err)
}

// send sends the reply, unless none is wanted.
func (s *Server) send(h header, err error) error {
	if h.flags&flagNoReply != 0 {
		return nil
	}
	r := header{id: h.id, command: h.command, flags: flagReply}
	if err != nil {
		var errno syscall.Errno
		if !errors.As(err, &errno) {
			errno = syscall.EINVAL
		}
		r.flags |= flagError
		r.errno = uint32(errno)
		s.reply = s.reply[:headerSize]
	}
	r.size = uint32(len(s.reply))
	r.append(s.reply[:0])
	_, err = s.conn.Write(s.reply)
	return err
}
