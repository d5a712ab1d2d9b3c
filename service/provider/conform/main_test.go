package conform_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/reevehq/reeve/service/provider/conform"
	"github.com/reevehq/reeve/service/provider/demo"
)

// The test program is also the demo agent and Reeve's own MCP server, as reeve is,
// and a small server with a tool for notes. The tests run where nothing but the loopback device can be reached, so that a program that phones
// home fails visibly.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "demo-agent" {
		if err := demo.Main(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "demo agent:", err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == conform.NotesArg {
		if err := conform.ServeNotes(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "MCP server:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == ours {
		if err := serveOurs(); err != nil {
			fmt.Fprintln(os.Stderr, "Reeve's own MCP server:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(conform.Isolated(func() int {
		code := m.Run()
		if err := results.print(); err != nil {
			fmt.Fprintln(os.Stderr, "write the table of providers:", err)
			return 1
		}
		return code
	}))
}
