package region_test

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/farwire/farwire/internal/uapi"
	"github.com/farwire/farwire/rdma/mlx5/internal/mlx5test"
	"github.com/farwire/farwire/rdma/mlx5/qp"
	"github.com/farwire/farwire/rdma/mlx5/region"
	"github.com/farwire/farwire/rdma/softnic"
)

// The software NIC takes a memory file for a dma-buf. Its bytes are moved by
// queue pairs, from the offset that the region starts at, though this process
// never maps them.
func TestDmabuf(t *testing.T) {
	mlx5test.NeedSoft(t) // the kernel wants a real dma-buf, and a NIC that loads page lists by work queue entries
	h := mlx5test.NewHost(t, softnic.Config{})
	fd, err := unix.MemfdCreate("dma-buf", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	file := os.NewFile(uintptr(fd), "dma-buf")
	defer func() { require.NoError(t, file.Close()) }()
	require.NoError(t, file.Truncate(1<<20))
	_, err = file.WriteAt([]byte("from the device"), 0x1234+100)
	require.NoError(t, err)

	r, err := region.Dmabuf(h.NIC, region.RemoteReadWrite, fd, 0x1234, 4096)
	require.NoError(t, err)
	require.Nil(t, r.Bytes())
	require.Equal(t, region.Segment{Addr: 0x1234 + 96, Length: 4000, LKey: r.LKey()}, r.Local(96, 4000))
	require.True(t, r.Local(97, 4000).Outside())

	p := h.Pair(qp.Config{Sends: 2})
	require.NoError(t, p.Connect(region.RemoteReadWrite, p.Endpoint()))
	target, err := r.Remote(200)
	require.NoError(t, err)
	require.NoError(t, p.Post(qp.Entry{Op: qp.Write, Local: r.Local(100, 15), Remote: h.Target(0)}))
	require.NoError(t, p.Post(qp.Entry{Op: qp.Write, Inline: []byte("to the device"), Remote: target, Signaled: true}))
	p.Ring()
	require.NoError(t, h.Poll(1)[0].Err())
	require.Equal(t, "from the device", string(h.MR.Bytes()[:15]))
	got := make([]byte, 13)
	_, err = file.ReadAt(got, 0x1234+200)
	require.NoError(t, err)
	require.Equal(t, "to the device", string(got))
	require.NoError(t, r.Close())

	_, err = region.Dmabuf(h.NIC, region.Local, fd, 0, 2<<20)
	require.Error(t, err, "longer than the dma-buf")
	h.File.Refuse(mlx5test.Command{Object: uapi.ObjectMR, Method: uapi.MethodRegDmabufMR}, syscall.EPROTONOSUPPORT, 0)
	_, err = region.Dmabuf(h.NIC, region.Local, fd, 0, 4096)
	require.ErrorIs(t, err, errors.ErrUnsupported)
}
