package verbs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// willing is a File that does nothing, and does it well.
type willing struct{}

func (willing) Ioctl([]byte) error              { return nil }
func (willing) Map(int64, int) (*Page, error)   { return nil, nil }
func (willing) Events(int) (EventFile, error)   { return willing{}, nil }
func (willing) Close() error                    { return nil }
func (willing) Read([]byte) (int, error)        { return 0, nil }
func (willing) SetReadDeadline(time.Time) error { return nil }

// Soft-RoCE's data path consists of these commands.
func TestDataPathAllocatesNothing(t *testing.T) {
	c, err := NewContext(willing{}, DriverRXE, nil, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if c.PostSend(1) != nil || c.ReqNotifyCQ(1, false) != nil {
			t.Error("refused")
		}
	}))
}
