//go:build !linux || !(amd64 || arm64)

package interpose

import (
	"context"
	"log/slog"

	"github.com/farwire/farwire/rdma/softnic"
)

// Child does nothing on this system.
func Child() {}

// Check says whether programs can be run.
func Check() error { return ErrUnsupported }

// Host is not to be had on this system.
type Host struct{}

// New fails with ErrUnsupported.
func New([]*softnic.NIC, *slog.Logger) (*Host, error) { return nil, ErrUnsupported }

// Start fails with ErrUnsupported.
func (*Host) Start(context.Context, Command) (*Process, error) { return nil, ErrUnsupported }

// Close does nothing.
func (*Host) Close() error { return nil }

// Process is a program that runs.
type Process struct{}

// Listening is nil.
func (*Process) Listening() <-chan struct{} { return nil }

// Wait fails with ErrUnsupported.
func (*Process) Wait() error { return ErrUnsupported }
