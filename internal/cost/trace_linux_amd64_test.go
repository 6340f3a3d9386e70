package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTraceErrors(t *testing.T) {
	var out strings.Builder
	require.ErrorIs(t, trace([]string{"/no/such/program"}, &out), os.ErrNotExist)
	require.ErrorContains(t, trace([]string{"false"}, &out), "exit status 1")
	require.NoError(t, trace([]string{"true"}, &out), "it has no breakpoints")
	require.Empty(t, out.String())
}
