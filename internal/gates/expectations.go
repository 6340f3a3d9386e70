package main

import (
	"bufio"
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// lists are how the tests of a version of rdma-core are to go, in files named after
// the version. A file has sections, each with a heading in brackets:
//
//	[pass]             these pass
//	[skip: REASON]     these are skipped, because the NIC lacks what they need
//	[machine: REASON]  these pass, or are skipped because the machine lacks something
//
// Below a heading come lines "says: TEXT", the beginnings of what the suite itself
// gives as reason, and the tests, each with a link layer behind it if the section is
// about that one only. Every test is in the list once for each link layer.
//
//go:embed pyverbs-*.txt
var lists embed.FS

// expectations are how tests are to go, by link layer and test.
type expectations map[layer]map[string]*section

// section is a heading of a list and what it says of its tests.
type section struct {
	outcome string // pass, skip or machine
	reason  string
	says    []string
	tests   int // entries, for one link layer or both
}

func readExpectations(version string) (expectations, []*section, error) {
	file := "pyverbs-" + version + ".txt"
	b, err := lists.ReadFile(file)
	if err != nil {
		return nil, nil, fmt.Errorf("no list of tests for rdma-core %s: %w", version, err)
	}
	e, sections, err := parseExpectations(string(b))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	return e, sections, nil
}

func parseExpectations(text string) (expectations, []*section, error) {
	e := expectations{roce: {}, ib: {}}
	var sections []*section
	lines := bufio.NewScanner(strings.NewReader(text))
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if strings.HasPrefix(line, "[") {
			sections = append(sections, nil)
		} else if sections == nil {
			return nil, nil, fmt.Errorf("line %d: no heading", number)
		}
		if err := e.parseLine(line, &sections[len(sections)-1]); err != nil {
			return nil, nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	return e, sections, nil
}

func (e expectations) parseLine(line string, s **section) (err error) {
	if strings.HasPrefix(line, "[") {
		*s, err = parseHeading(line)
		return err
	}
	if says, ok := strings.CutPrefix(line, "says: "); ok {
		(*s).says = append((*s).says, says)
		return nil
	}
	on := []layer{roce, ib}
	fields := strings.Fields(line)
	if len(fields) == 2 {
		on = []layer{layer(fields[1])}
	}
	(*s).tests++
	for _, l := range on {
		switch tests := e[l]; {
		case tests == nil || len(fields) > 2:
			return fmt.Errorf("%q is not a test and a link layer", line)
		case tests[fields[0]] != nil:
			return fmt.Errorf("%s is listed twice for %s", fields[0], l)
		default:
			tests[fields[0]] = *s
		}
	}
	return nil
}

func parseHeading(line string) (*section, error) {
	heading, closed := strings.CutSuffix(line[1:], "]")
	outcome, reason, _ := strings.Cut(heading, ": ")
	known := outcome == "pass" && reason == "" || (outcome == "skip" || outcome == "machine") && reason != ""
	if !closed || !known {
		return nil, fmt.Errorf("heading %q", line)
	}
	return &section{outcome: outcome, reason: reason}, nil
}

// verdict is how a test went: pass, skip, or in another way.
type verdict struct {
	outcome, reason string
}

// differences are where tests went otherwise than expected.
func (e expectations) differences(l layer, went map[string]verdict) (all []string) {
	for _, test := range slices.Sorted(maps.Keys(went)) {
		v, s := went[test], e[l][test]
		switch {
		case s == nil:
			all = append(all, fmt.Sprintf("%s is not listed; it is a %s %s", test, v.outcome, v.reason))
		case !s.allows(v):
			all = append(all, fmt.Sprintf("%s is listed as %s %s; it is a %s %s", test, s.outcome, s.reason, v.outcome, v.reason))
		}
	}
	for _, test := range slices.Sorted(maps.Keys(e[l])) {
		if _, ok := went[test]; !ok {
			all = append(all, test+" is listed and was not there")
		}
	}
	return all
}

func (s *section) allows(v verdict) bool {
	if v.outcome == "pass" {
		return s.outcome != "skip"
	}
	return v.outcome == "skip" && s.outcome != "pass" &&
		slices.ContainsFunc(s.says, func(start string) bool { return strings.HasPrefix(v.reason, start) })
}
