package rdma

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"

	"github.com/farwire/farwire/conn"
	"github.com/farwire/farwire/rdma/mlx5"
	"github.com/farwire/farwire/rdma/softnic"
	"github.com/farwire/farwire/rdma/verbs"
)

// ports are the opened ports of a process, each shared by its listeners and
// connections.
type ports struct {
	finder finder
	soft   func() (*softnic.Config, error) // how software NICs are set up
	opened func(*port)                     // told of each opened port; may be nil

	mu   sync.Mutex
	open map[portKey]*port
}

// system is the ports of this process.
var system = newPorts(softnic.ConfigFromEnv)

func newPorts(soft func() (*softnic.Config, error)) *ports {
	return &ports{finder: finder{known: &listing{}}, soft: soft, open: map[portKey]*port{}}
}

type portKey struct {
	device string
	driver verbs.DriverID
	port   uint8
	addr   netip.Addr
	netdev string
}

// port is an opened port of a NIC.
type port struct {
	owner *ports
	key   portKey
	name  string
	nic   card
	soft  *softnic.NIC // below nic, if it is the software NIC

	mu      sync.Mutex
	pools   map[poolKey]*conn.Pool
	pairs   map[uint32]*pair // by number
	failing sync.WaitGroup   // pairs that are being failed
	silence func()           // ends the hearing of events

	leasing sync.Mutex // held by those who lease buffers within a limit

	users int // guarded by owner.mu
}

// poolKey is what the buffers of a pool have in common: their size, and how long they are
// used for. Those that busy connections take for a while have slabs of their own, which are
// unused when the connections are idle, however long these last.
type poolKey struct {
	size int
	use  use
}

type use int

const (
	lasting use = iota
	passing
)

// acquire returns the opened port for a connection on route r, opening it if need be.
// Each acquire needs one release.
func (ps *ports) acquire(device string, r route, log *slog.Logger) (*port, error) {
	choice, soft, err := ps.choose(device, r)
	if err != nil {
		return nil, err
	}
	key := portKey{choice.Device, choice.Driver, choice.Port, choice.Addr, choice.NetDev}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.open[key]
	if p != nil && p.nic.Err() != nil {
		delete(ps.open, key) // those who use a failed device close it
		p = nil
	}
	if p == nil {
		if p, err = ps.openPort(key, soft); err != nil {
			ps.finder.known.forget() // perhaps it is gone
			return nil, choice.failure(r, err)
		}
		ps.open[key] = p
		if ps.opened != nil {
			ps.opened(p)
		}
		log.Info("rdma: opened device", "device", p.name, "because", choice.Reason, "software", p.soft != nil)
	}
	p.users++
	return p, nil
}

// choose returns the choice for a connection on route r, and how the software NIC is set
// up if it is that: as FARWIRE_SOFTNIC says, and on the address of the choice unless that
// names one.
func (ps *ports) choose(device string, r route) (Choice, *softnic.Config, error) {
	c, err := ps.finder.find(device, r)
	if err != nil || c.Device != Soft {
		return c, nil, err
	}
	config, err := ps.soft()
	if err != nil {
		return c, nil, c.failure(r, err)
	}
	if !config.Addr.IsValid() && c.Addr.IsValid() {
		if c.Addr.Is6() && c.Addr.IsLinkLocalUnicast() {
			return c, nil, c.failure(r, errors.New("it cannot use a link-local address"))
		}
		config.Addr, config.Link = c.Addr, softnic.LinkUDP
	}
	c.Addr = config.Addr
	return c, config, nil
}

// share is another acquire of a port that its caller has acquired.
func (p *port) share() {
	p.owner.mu.Lock()
	defer p.owner.mu.Unlock()
	p.users++
}

// release gives back one acquire. The last one closes the device.
func (p *port) release() error {
	p.owner.mu.Lock()
	defer p.owner.mu.Unlock()
	p.users--
	if p.users > 0 {
		return nil
	}
	if p.owner.open[p.key] == p {
		delete(p.owner.open, p.key)
	}
	return p.close()
}

// openPort opens a port of a card or, if soft is not nil, of a new software NIC.
func (ps *ports) openPort(key portKey, soft *softnic.Config) (*port, error) {
	p := &port{owner: ps, key: key, name: key.device}
	var err error
	if soft != nil {
		err = p.openSoft(soft)
	} else {
		p.nic, err = openCard(key)
	}
	if err != nil {
		return nil, err
	}
	p.pools, p.pairs = map[poolKey]*conn.Pool{}, map[uint32]*pair{}
	p.silence = p.nic.Events(p.heard)
	return p, nil
}

// openSoft makes a software NIC and opens it.
func (p *port) openSoft(config *softnic.Config) (err error) {
	if p.soft, err = softnic.New(config); err != nil {
		return err
	}
	p.name = p.soft.Name() + " (software)"
	file, err := p.soft.Open()
	if err == nil {
		gids := func(uint8) ([]verbs.GIDEntry, error) { return p.soft.GIDs(), nil }
		var n *mlx5.NIC
		n, err = mlx5.OpenFile(file, mlx5.Config{GIDs: gids})
		p.nic = mlx5Card{n}
	}
	if err != nil {
		return errors.Join(err, p.soft.Close())
	}
	return nil
}

func (p *port) close() error {
	p.silence()
	p.failing.Wait()
	for _, pool := range p.pools {
		pool.Close()
	}
	err := p.nic.Close()
	if p.soft != nil {
		err = errors.Join(err, p.soft.Close())
	}
	return err
}

// lease takes n message buffers of so many bytes. limit bounds the memory that the port
// has registered for all of its connections; 0 is none.
func (p *port) lease(use use, size, n, limit int) (*conn.Lease, error) {
	pool := p.pool(poolKey{size, use})
	if limit == 0 {
		return pool.Get(n)
	}
	p.leasing.Lock()
	defer p.leasing.Unlock()
	others := p.registered() - pool.Stats().Registered
	l, err := pool.GetWithin(n, max(limit-others, 1))
	if errors.Is(err, conn.ErrPoolLimit) && others > 0 {
		err = fmt.Errorf("%w (%d bytes in buffers of other sizes, or for busy connections)", err, others)
	}
	return l, err
}

// registered is how many bytes of message buffers are registered.
func (p *port) registered() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pool := range p.pools {
		n += pool.Stats().Registered
	}
	return n
}

// pool returns the pool of message buffers of a kind.
func (p *port) pool(key poolKey) *conn.Pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pools[key] == nil {
		p.pools[key] = conn.NewPool(conn.PoolConfig{Register: p.nic.register, Size: key.size})
	}
	return p.pools[key]
}
