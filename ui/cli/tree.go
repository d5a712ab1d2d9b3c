package cli

import "github.com/spf13/cobra"

// Tree returns the commands of the program, which manual pages and shell
// completions are made from. They can be read, not run: nothing stands behind
// them.
func Tree() *cobra.Command { return (&app{}).root() }
