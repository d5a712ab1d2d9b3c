package model

import (
	"strings"
	"time"

	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/say"
)

// CredentialRow is a secret by its name, as the settings list it. Nothing of the
// secret itself ever comes here.
type CredentialRow struct {
	Name  string
	Ready bool
	About string // "in the keychain, for Claude Code, since 14:02"
	// Problem says why the service does not have it at hand, and what mends
	// that.
	Problem string
	File    bool // it lies in the encrypted file
	Wanted  bool // a mission waits for it
}

// CredentialRows prepares the list of credentials for a person.
func CredentialRows(r wire.CredentialListResult, now time.Time) []CredentialRow {
	wanted := map[string]bool{}
	for _, name := range r.Wanted {
		wanted[name] = true
	}
	var out []CredentialRow
	for _, c := range r.Credentials {
		row := CredentialRow{Name: exact(c.Name), Ready: c.Ready, File: c.In == wire.InFile, Wanted: wanted[c.Name]}
		where := say.T("in the keychain")
		switch c.In {
		case wire.InFile:
			where = say.T("in the encrypted file")
		case wire.InMemory:
			where = say.T("in memory, until the service ends")
		}
		var titles []string
		for _, p := range c.Providers {
			titles = append(titles, ProviderTitle(p))
		}
		if len(titles) > 0 {
			where = say.T("%s, for %s", where, strings.Join(titles, ", "))
		}
		row.About = say.T("%s, since %s", where, Clock(c.UpdatedAt, now))
		if !c.Ready {
			row.Problem = strings.TrimSpace(oneLine(c.Problem) + " " + oneLine(c.Fix))
		}
		out = append(out, row)
	}
	return out
}

// KeychainTrouble says what is wrong with the keychain as the service sees it,
// and what mends it; "" when it can be used.
func KeychainTrouble(k wire.Keychain) string {
	if k.State == "" || k.State == "ready" {
		return ""
	}
	return strings.TrimSpace(oneLine(k.Message) + " " + oneLine(k.Fix))
}
