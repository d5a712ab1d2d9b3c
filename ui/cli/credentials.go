package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
)

// maxSecretLine bounds a line that holds a secret, in bytes; the service has a
// limit of its own, below this one.
const maxSecretLine = 64 << 10

func (a *app) credentials() *cobra.Command {
	list := func(c *cobra.Command, _ []string) error {
		r, err := call[wire.CredentialListResult](c.Context(), a, wire.MethodCredentialList, nil)
		if err != nil {
			return err
		}
		return a.printCredentials(r)
	}
	c := &cobra.Command{
		Use: "credentials", Short: "List and keep the secrets that agents need",
		Long: `List the secrets that are kept for agents, such as ANTHROPIC_API_KEY. They lie in
the keychain of your desktop, or in an encrypted file if you ask for it; nothing
prints them. A mission gets them when the variable is missing in the terminal
that it is started from, and its approval names them.`,
		Example: "  reeve credentials\n  reeve credentials set ANTHROPIC_API_KEY\n  reeve credentials list --json",
		Args:    noArgs, RunE: list,
	}
	c.AddCommand(
		&cobra.Command{Use: "list", Short: "List the secrets that are kept", Long: "List the secrets that are kept, by name, and the state of the keychain.",
			Example: "  reeve credentials list --json", Args: noArgs, RunE: list},
		a.setCredential(), a.removeCredential(), a.unlockCredentials())
	return c
}

func (a *app) printCredentials(r wire.CredentialListResult) error {
	if a.json {
		return a.printJSON(r)
	}
	if len(r.Credentials) == 0 {
		fmt.Fprintln(a.Stdout, "No credentials are kept. Add one with `reeve credentials set NAME`.")
	}
	var rows [][]cell
	for _, c := range r.Credentials {
		mark, what := cell{"✓", a.style.done}, plain(oneLine(strings.Join(c.Providers, ", ")))
		if !c.Ready {
			mark, what = cell{"✕", a.style.needs}, plain(strings.TrimSpace(oneLine(c.Problem)+" "+oneLine(c.Fix)))
		}
		where := map[string]string{wire.InKeychain: "keychain", wire.InFile: "encrypted file", wire.InMemory: "handed over"}[c.In]
		rows = append(rows, []cell{mark, plain(oneLine(c.Name)), plain(where), what})
	}
	table(a.Stdout, "", rows)
	if r.Keychain.State != "ready" {
		fmt.Fprintln(a.Stdout, a.style.quiet(strings.TrimSpace(oneLine(r.Keychain.Message)+" "+oneLine(r.Keychain.Fix))))
	}
	if len(r.Wanted) > 0 {
		fmt.Fprintln(a.Stdout, a.style.needs("Missions wait for "+oneLine(strings.Join(r.Wanted, ", "))+"."))
	}
	return nil
}

func (a *app) setCredential() *cobra.Command {
	var in string
	c := &cobra.Command{
		Use: "set NAME", Short: "Keep a secret",
		Long: `Keep a secret under the name of the environment variable that it fills. It is
asked for without showing it, or read from standard input: one line, and with
--in file the passphrase in a second one. It is never an argument, because
others can see those.`,
		Example: "  reeve credentials set ANTHROPIC_API_KEY\n  pass show openai | reeve credentials set OPENAI_API_KEY\n  reeve credentials set OPENAI_API_KEY --in file",
		Args:    oneName("reeve credentials set", "ANTHROPIC_API_KEY"),
		RunE: func(c *cobra.Command, args []string) error {
			if in != wire.InKeychain && in != wire.InFile {
				return usage("Use --in keychain or --in file.", "--in %q is no place for a secret.", in)
			}
			p := wire.CredentialSetParams{Name: args[0], In: in}
			line := a.secretLines()
			var err error
			if p.Secret, err = line("Value of " + oneLine(args[0]) + ": "); err != nil {
				return err
			}
			if in == wire.InFile {
				if p.Passphrase, err = line("Passphrase of the encrypted file: "); err != nil {
					return err
				}
			}
			return a.changedCredentials(c, wire.MethodCredentialSet, p, "Stored "+oneLine(args[0])+".")
		},
	}
	c.Flags().StringVar(&in, "in", wire.InKeychain, "where to keep it: keychain, or file (encrypted with a passphrase)")
	return c
}

func (a *app) removeCredential() *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Short: "Forget a secret",
		Long:    "Forget a secret everywhere. An agent that runs keeps what it was given until its mission ends.",
		Example: "  reeve credentials remove OPENAI_API_KEY",
		Args:    oneName("reeve credentials remove", "OPENAI_API_KEY"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.changedCredentials(c, wire.MethodCredentialRemove, wire.CredentialRemoveParams{Name: args[0]}, "Removed "+oneLine(args[0])+".")
		},
	}
}

func (a *app) unlockCredentials() *cobra.Command {
	return &cobra.Command{
		Use: "unlock", Short: "Open the encrypted file",
		Long:    "Open the encrypted file of secrets with its passphrase, which is asked for or read from standard input. It is open until the service ends.",
		Example: "  reeve credentials unlock", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			passphrase, err := a.secretLines()("Passphrase of the encrypted file: ")
			if err != nil {
				return err
			}
			return a.changedCredentials(c, wire.MethodCredentialHand, wire.CredentialHandParams{Passphrase: passphrase}, "The encrypted file is open.")
		},
	}
}

func (a *app) changedCredentials(c *cobra.Command, method string, params any, done string) error {
	r, err := call[wire.CredentialListResult](c.Context(), a, method, params)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(r)
	}
	fmt.Fprintln(a.Stdout, done)
	if r.Note != "" {
		fmt.Fprintln(a.Stdout, oneLine(r.Note))
	}
	return nil
}

// secretLines returns what reads one secret after the other: without an echo
// where a person types, else line by line.
func (a *app) secretLines() func(question string) (string, error) {
	in := bufio.NewReader(io.LimitReader(a.Stdin, 2*maxSecretLine))
	return func(question string) (string, error) {
		var secret string
		var err error
		if a.InTerminal() {
			fmt.Fprint(a.Stderr, question)
			secret, err = a.ReadSecret()
			fmt.Fprintln(a.Stderr)
		} else if secret, err = in.ReadString('\n'); errors.Is(err, io.EOF) && secret != "" {
			err = nil
		}
		secret = strings.TrimRight(secret, "\r\n")
		switch {
		case errors.Is(err, io.EOF) || err == nil && secret == "":
			return "", &Failure{Exit: ExitUsage, What: "Nothing was entered, so nothing was changed.", Next: "Type it, or write it to standard input."}
		case err != nil:
			return "", &Failure{Exit: ExitFailed, What: "What you type can't be read: " + sentence(model.Clean(err.Error()))}
		}
		return secret, nil
	}
}

func oneName(command, example string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return usage("For example: "+command+" "+example+".", "`%s` takes one name. The secret itself is never an argument.", command)
		}
		return nil
	}
}
