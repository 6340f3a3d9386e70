package pcap

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A RoCE packet from BTH to ICRC, over IPv4 with type of service 2 and identification
// 0x1234. The IP header and the ICRC are those scapy makes of it.
const (
	sendOnly   = "0430ffff000000118001020368656c6c6f0000006233b6b6"
	ethernetV4 = "020000000002" + "020000000001" + "0800"
	headersV4  = "4502003412344000401114730a0700010a070002" + "c00112b700200000"
	ethernetV6 = "020000000002" + "020000000001" + "86dd"
	headersV6  = "6020000000201140fd000000000000000000000000000001fd000000000000000000000000000002" + "c00112b70020"
	head       = "4d3cb2a1" + "0200" + "0400" + "0000000000000000" + "00000100" + "01000000"
)

var h4 = Header{
	SrcMAC: [6]byte{2, 5: 1}, DstMAC: [6]byte{2, 5: 2},
	Src: netip.MustParseAddr("10.7.0.1"), Dst: netip.MustParseAddr("10.7.0.2"),
	SrcPort: 0xc001, DstPort: 4791, TClass: 2, ID: 0x1234,
}

func payload(t testing.TB) []byte {
	b, err := hex.DecodeString(sendOnly)
	require.NoError(t, err)
	return b
}

func openAt(t testing.TB, name string, now time.Time) *Writer {
	w, err := Open(name, Ethernet)
	require.NoError(t, err)
	w.now = func() time.Time { return now }
	return w
}

func TestFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pcap")
	now := time.Unix(0x01020304, 999_999_999)
	w := openAt(t, name, now)
	w.Write(&h4, payload(t))
	require.NoError(t, w.Close())
	const record = "04030201" + "ffc99a3b" + "42000000" + "42000000" + ethernetV4 + headersV4 + sendOnly
	got, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, head+record, hex.EncodeToString(got))

	again := openAt(t, name, now)
	again.Write(&h4, payload(t))
	require.NoError(t, again.Close())
	got, err = os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, head+record+record, hex.EncodeToString(got), "a file gone on with")
	rest, err := filepath.Glob(filepath.Join(filepath.Dir(name), ".*"))
	require.NoError(t, err)
	require.Empty(t, rest)
}

func TestHeaders(t *testing.T) {
	fragments := h4
	fragments.MayFragment = true
	b := fragments.Append(nil, payload(t))
	require.Equal(t, "1234"+"0000"+"4011"+"5473", hex.EncodeToString(b[18:26]), "the checksum too")

	h6 := h4
	h6.Src, h6.Dst = netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
	b = h6.Append(nil, payload(t))
	require.Equal(t, ethernetV6+headersV6, hex.EncodeToString(b[:len(b)-2]))
	// Receivers add up pseudo header, header with checksum, and payload.
	all := sum(append(b[14+8:len(b):len(b)], payload(t)...)) + 32 + UDP
	require.EqualValues(t, 0xffff, fold(all))

	require.EqualValues(t, 0x0402, sum([]byte{1, 2, 3}), "an odd number of bytes")
	rest := fold(^uint32(h6.checksum(nil, []byte{0, 0})) & 0xffff)
	require.EqualValues(t, 0xffff, h6.checksum(nil, []byte{byte(^rest >> 8), byte(^rest)}), "0 would be none")
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(filepath.Join(dir, "none", "pcap"), Ethernet)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "open capture: ")
	for name, content := range map[string]string{"empty": "", "text": "a file of twenty-four bytes or more"} {
		name = filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
		_, err := Open(name, Ethernet)
		require.ErrorIs(t, err, ErrForeign)
		left, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, content, string(left))
	}
	_, err = Open(dir, Ethernet)
	require.Error(t, err, "a folder")
	_, err = Open("a\x00name", Ethernet)
	require.Error(t, err)
}

// Writers that come at the same time make one file, and lose none of their packets.
func TestShared(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pcap")
	const writers, packets = 8, 50
	b := payload(t)
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			w, err := Open(name, Ethernet)
			if err != nil {
				t.Error(err)
				return
			}
			for range packets {
				w.Write(&h4, b)
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	got, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, head, hex.EncodeToString(got[:fileHeaderSize]))
	const size = recordHeaderSize + 14 + 20 + 8 + len(sendOnly)/2
	require.Len(t, got, fileHeaderSize+writers*packets*size)
	for at := fileHeaderSize; at < len(got); at += size {
		require.Equal(t, sendOnly, hex.EncodeToString(got[at+size-len(b):at+size]))
	}
}

func TestPipe(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /dev/fd")
	}
	r, p, err := os.Pipe()
	require.NoError(t, err)
	w, err := Open(fmt.Sprintf("/dev/fd/%d", p.Fd()), Ethernet)
	require.NoError(t, err)
	require.NoError(t, p.Close())
	w.Write(&h4, payload(t))
	require.NoError(t, w.Close())
	got, err := io.ReadAll(r)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.Equal(t, head, hex.EncodeToString(got[:fileHeaderSize]))
	require.Len(t, got, fileHeaderSize+recordHeaderSize+14+28+len(payload(t)))
}

// The first error is the one that Close tells, and nothing is written after it.
func TestWriteError(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /dev/full")
	}
	_, err := Open("/dev/full", Ethernet)
	require.ErrorContains(t, err, "no space left")

	w := openAt(t, filepath.Join(t.TempDir(), "pcap"), time.Now())
	require.NoError(t, w.file.Close())
	w.Write(&h4, nil)
	w.Write(&h4, nil)
	err = w.Close()
	require.ErrorIs(t, err, os.ErrClosed)
	require.ErrorContains(t, err, "write capture: ")
}

func TestWriteDoesNotAllocate(t *testing.T) {
	w := openAt(t, filepath.Join(t.TempDir(), "pcap"), time.Now())
	b := payload(t)
	require.Zero(t, testing.AllocsPerRun(100, func() { w.Write(&h4, b) }))
	require.NoError(t, w.Close())
}
