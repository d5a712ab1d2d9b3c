package cli

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// noArgs refuses arguments. Where a command has others below it, a word that
// is none of them is answered with the nearest ones.
func noArgs(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case !c.HasAvailableSubCommands():
		return usage("Run `"+c.CommandPath()+" --help`.", "`%s` takes no arguments.", c.CommandPath())
	}
	c.SuggestionsMinimumDistance = 2
	next := "Run `" + c.CommandPath() + " --help` to see the commands."
	near := c.SuggestionsFor(args[0])
	if n := len(near); n > 1 {
		near = []string{strings.Join(near[:n-1], ", ") + " or " + near[n-1]}
	}
	if len(near) > 0 {
		next = "Did you mean " + near[0] + "? " + next
	}
	return usage(next, "`%s` has no command %q.", c.CommandPath(), args[0])
}

// helpOf makes `reeve help WORD` refuse what is no command, where the one that
// comes with cobra would succeed.
func helpOf(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"})
	help.Use, help.Short, help.Long = "help [COMMAND]", "Explain a command", "Explain a command, as its --help does."
	help.Example = "  reeve help start\n  reeve help service logs"
	help.Run = nil
	help.RunE = func(_ *cobra.Command, args []string) error {
		c, rest, err := root.Find(args)
		if err == nil {
			err = noArgs(c, rest)
		}
		if err != nil {
			return err
		}
		c.InitDefaultHelpFlag()
		return c.Help()
	}
}

// flagError says of a flag's value what it should be, by the flag's own text.
func flagError(c *cobra.Command, err error) error {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return err
	}
	f := bad.GetFlag()
	should := map[string]string{"int": "is not a whole number", "int64": "is not a whole number", "float64": "is not a number", "bool": "is neither true nor false",
		"size": "is not an amount of memory from 256M to 1T with its unit"}[f.Value.Type()]
	if should == "" {
		return err
	}
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand
	}
	return usage("Run `"+c.CommandPath()+" --help`.", "%s %q %s (%s).", name, bad.GetValue(), should, f.Usage)
}

// checkText refuses a text that is not UTF-8: JSON would replace what is not,
// and somebody would approve what nobody wrote.
func checkText(what, text string) error {
	for i, r := range text {
		if r != utf8.RuneError {
			continue
		}
		if _, size := utf8.DecodeRuneInString(text[i:]); size == 1 {
			return &Failure{Exit: ExitRefused, What: fmt.Sprintf("The %s is not valid UTF-8 at byte %d.", what, i), Next: "Save or pass it as UTF-8 and try again."}
		}
	}
	return nil
}
