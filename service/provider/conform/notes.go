package conform

import (
	"context"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/reevehq/reeve/service/provider"
)

// NotesArg is the argument that makes a test program an MCP server: it then has
// to call ServeNotes.
const NotesArg = "mcp-server"

const (
	notesVar = "CONFORM_NOTES" // the file for notes
	markVar  = "CONFORM_MARK"  // what stands before each
)

// Note is the input of the tool note.
type Note struct {
	Text string `json:"text" jsonschema:"what to write down"`
}

// Notes is a real MCP server with one tool: this test program, under a name. Its
// tool note replaces file by mark and the text of a Note.
func Notes(name, file, mark string) (provider.Server, error) {
	exe, err := os.Executable()
	return provider.Server{Name: name, Command: exe, Args: []string{NotesArg}, Env: []string{notesVar + "=" + file, markVar + "=" + mark}}, err
}

// ServeNotes is that server, on the standard streams. It says of its tool that it
// does no harm, for which some programs would not ask.
func ServeNotes(ctx context.Context) error {
	s := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "note", Description: "Writes a note down", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true}},
		func(_ context.Context, _ *mcp.CallToolRequest, in Note) (*mcp.CallToolResult, any, error) {
			text := os.Getenv(markVar) + in.Text
			err := os.WriteFile(os.Getenv(notesVar), []byte(text), 0o600)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "noted " + text}}}, nil, err
		})
	return s.Run(ctx, &mcp.StdioTransport{})
}
