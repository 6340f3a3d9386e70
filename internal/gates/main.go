// Gates runs programs that nobody here wrote, on the libraries they are made
// for, under farwire run: rdma-core's own tests and examples, and perftest. It
// prints a table of these gates and fails if one does.
//
// It needs the packages ibverbs-utils, perftest and python3-pyverbs of Debian, the
// go command, and the module's folder or one below it as the current folder.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return
	}
	fmt.Fprintln(os.Stderr, "gates:", err)
	os.Exit(1)
}

// run is the command.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("gates", flag.ContinueOnError)
	flags.SetOutput(stdout)
	pattern := flags.String("run", "", "run the gates whose group, name and link layer match a `regexp`, such as \"^perftest.*UD.*roce\"")
	document := flags.String("doc", "", "write what passed into a `file`, between the marks that are there for it")
	race := flags.Bool("race", false, "build the tool with the race detector")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := regexp.Compile(*pattern)
	if err != nil {
		return err
	}
	if *document != "" && *pattern != "" {
		return errors.New("the document tells of all gates")
	}
	found, err := findVersions(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "farwire-gates-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	t, err := buildTool(ctx, dir, *race)
	if err != nil {
		return err
	}
	if err := runGates(ctx, t, chosen, found, stdout); err != nil {
		return err
	}
	if *document == "" {
		return nil
	}
	return updateDocument(*document, found)
}

// runGates runs the gates and prints the table.
func runGates(ctx context.Context, t *tool, chosen *regexp.Regexp, found versions, stdout io.Writer) error {
	fmt.Fprintln(stdout, found)
	table := newTable(stdout)
	for _, g := range allGates(found) {
		for _, l := range g.layers() {
			if !chosen.MatchString(g.title() + " " + string(l)) {
				continue
			}
			table.add(g, l, t.try(ctx, g, l))
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	return table.end()
}

// tool is farwire, built for the gates, and the folder of its files.
type tool struct {
	path, dir string
}

func buildTool(ctx context.Context, dir string, race bool) (*tool, error) {
	t := &tool{filepath.Join(dir, "farwire"), dir}
	args := []string{"build", "-o", t.path}
	if race {
		args = append(args, "-race")
	}
	if out, err := exec.CommandContext(ctx, "go", append(args, "github.com/farwire/farwire/cmd/farwire")...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building farwire: %w\n%s", err, out)
	}
	return t, nil
}
