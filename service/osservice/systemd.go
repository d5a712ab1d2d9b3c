package osservice

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// unitName is the unit's name without its suffix.
const unitName = "reeve"

// unitHead and unitTail are what every unit of ours has. KillMode=process leaves
// guards alone that could not get a scope of their own. There are no sandboxing
// directives, because what agents run would inherit them. Exit codes 4 and 7 say
// that another try would end the same (see the command line's exit codes).
const (
	unitHead = `# Written by "reeve service install"; the next one undoes what is changed here.
# To change something for good: systemctl --user edit reeve
[Unit]
Description=Reeve, the service that runs missions
StartLimitIntervalSec=60
StartLimitBurst=5

[Service]
Type=notify
NotifyAccess=main
`
	unitTail = `KillMode=process
Restart=on-failure
RestartSec=1
RestartPreventExitStatus=4 7
TimeoutStartSec=90
TimeoutStopSec=15
WatchdogSec=60

[Install]
WantedBy=default.target
`
)

// systemdUnit writes u as a unit file. The text has no "{{" in it, which
// kardianos/service would take for its own.
func systemdUnit(u Unit) string {
	var b strings.Builder
	b.WriteString(unitHead)
	for _, name := range slices.Sorted(maps.Keys(u.Env)) {
		b.WriteString("Environment=" + quoteWord(name+"="+u.Env[name]) + "\n")
	}
	b.WriteString("ExecStart=")
	if strings.ContainsFunc(u.Exe, unsafeInPath) {
		// systemd takes no program with such a name, but a shell does.
		b.WriteString(viaShell + " ")
		b.WriteString(quoteWord(strings.ReplaceAll(u.Exe, "$", "$$")))
	} else {
		b.WriteString(quoteWord(u.Exe))
	}
	for _, a := range u.Args {
		b.WriteString(" " + quoteWord(strings.ReplaceAll(a, "$", "$$")))
	}
	b.WriteString("\n" + unitTail)
	return b.String()
}

// viaShell runs the words after it in place of the shell.
const viaShell = `/bin/sh -c "exec \"$$0\" \"$$@\""`

func unsafeInPath(r rune) bool { return r < ' ' || r == 0x7f || strings.ContainsRune(`"'\$`, r) }

// quoteWord writes one word for systemd: in quotes, with C escapes, and no
// specifiers.
func quoteWord(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '%':
			b.WriteString("%%")
		case r < ' ' || r == 0x7f || r == '{':
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// parseSystemdUnit reads the unit of a file that systemdUnit wrote, or of one
// that somebody edited, as far as it can be understood.
func parseSystemdUnit(text string) (Unit, error) {
	var u Unit
	shell, _ := words(viaShell)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		name = strings.TrimSpace(name)
		if name != "Environment" && name != "ExecStart" {
			continue
		}
		list, err := words(value)
		if err != nil {
			return u, fmt.Errorf("read %s=%s: %w", name, value, err)
		}
		if name == "Environment" {
			for _, w := range list {
				k, v, _ := strings.Cut(w, "=")
				if u.Env == nil {
					u.Env = map[string]string{}
				}
				u.Env[k] = v
			}
			continue
		}
		if len(list) > len(shell) && slices.Equal(list[:len(shell)], shell) {
			list = list[len(shell):]
			list[0] = strings.ReplaceAll(list[0], "$$", "$")
		}
		if u.Exe, u.Args = "", nil; len(list) == 0 {
			continue // which takes an earlier one back
		}
		u.Exe = list[0]
		for _, a := range list[1:] {
			u.Args = append(u.Args, strings.ReplaceAll(a, "$$", "$"))
		}
	}
	if u.Exe == "" {
		return u, fmt.Errorf("there is no ExecStart")
	}
	return u, nil
}

// words splits as systemd does, and takes specifiers' percent signs back.
func words(s string) ([]string, error) {
	var out []string
	for {
		s = strings.TrimLeft(s, " \t")
		if s == "" {
			return out, nil
		}
		var w strings.Builder
		quote := byte(0)
		for s != "" && (quote != 0 || s[0] != ' ' && s[0] != '\t') {
			c := s[0]
			switch {
			case c == quote:
				quote, s = 0, s[1:]
			case quote == 0 && (c == '"' || c == '\''):
				quote, s = c, s[1:]
			case c == '\\':
				text, n, err := unescape(s)
				if err != nil {
					return nil, err
				}
				w.WriteString(text)
				s = s[n:]
			case strings.HasPrefix(s, "%%"):
				w.WriteByte('%')
				s = s[2:]
			default:
				w.WriteByte(c)
				s = s[1:]
			}
		}
		if quote != 0 {
			return nil, fmt.Errorf("the quote %c is not closed", quote)
		}
		if !utf8.ValidString(w.String()) {
			return nil, fmt.Errorf("%q is not valid UTF-8", w.String())
		}
		out = append(out, w.String())
	}
}

// unescape reads the C escape that s begins with; n is its length.
func unescape(s string) (text string, n int, err error) {
	if len(s) < 2 {
		return "", 0, fmt.Errorf("a lone backslash at the end")
	}
	if i := strings.IndexByte(`abfnrtvs\"'`, s[1]); i >= 0 {
		return "\a\b\f\n\r\t\v \\\"'"[i : i+1], 2, nil
	}
	if s[1] == 'x' && len(s) >= 4 {
		if b, err := strconv.ParseUint(s[2:4], 16, 8); err == nil {
			return string([]byte{byte(b)}), 4, nil
		}
	}
	return "", 0, fmt.Errorf("the escape %.4q is not known", s)
}
