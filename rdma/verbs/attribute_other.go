//go:build !linux

package verbs

import "os"

func readAttribute(path string) ([]byte, error) { return os.ReadFile(path) }
