package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/farwire/farwire/rdma/softnic"
)

// writeCounters writes what the NICs have counted to a file: a JSON object with a
// softnic.Counters for each NIC's name.
func writeCounters(file string, nics []*softnic.NIC) error {
	counters := map[string]softnic.Counters{}
	for _, n := range nics {
		counters[n.Name()] = n.Counters()
	}
	b, err := json.MarshalIndent(counters, "", "\t")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, append(b, '\n'), 0o666); err != nil {
		return fmt.Errorf("run: counters: %w", err)
	}
	return nil
}
