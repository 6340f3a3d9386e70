//go:build !linux

package main

import (
	"context"
	"io"
	"log/slog"

	"github.com/farwire/farwire/internal/interpose"
	"github.com/farwire/farwire/rdma/softnic"
)

func serveVMs(context.Context, context.Context, string, *softnic.NIC, *slog.Logger, io.Writer) error {
	return interpose.ErrUnsupported
}
