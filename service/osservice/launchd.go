package osservice

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// launchLabel names the LaunchAgent.
const launchLabel = "io.github.reevehq.reeve.service"

// launchPath is what the service finds programs by: launchd gives its jobs none
// of the folders that package managers use.
const launchPath = "/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

// launchAgent writes u as a property list. An orderly end is not repaired, a
// crash is. Guards are left alone when the service ends (AbandonProcessGroup),
// and nothing is throttled (Interactive), because what agents run would be, too.
// log gets what the service prints. The text has no "{{" in it, which
// kardianos/service would take for its own.
func launchAgent(u Unit, log string) (string, error) {
	for _, s := range append(u.texts(), log) {
		if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0xfffe || r == 0xffff }) {
			return "", fmt.Errorf("register %q: a property list can't hold such a character; rename it", s)
		}
	}
	env := maps.Clone(u.Env)
	if env == nil {
		env = map[string]string{}
	}
	if env["PATH"] == "" {
		env["PATH"] = launchPath
	}
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- Written by "reeve service install"; the next one undoes what is changed here. -->
<plist version="1.0">
<dict>
	<key>Label</key>
	<string>` + launchLabel + `</string>
	<key>ProgramArguments</key>
	<array>
`)
	for _, a := range append([]string{u.Exe}, u.Args...) {
		b.WriteString("\t\t<string>" + xmlText(a) + "</string>\n")
	}
	b.WriteString("\t</array>\n\t<key>EnvironmentVariables</key>\n\t<dict>\n")
	for _, name := range slices.Sorted(maps.Keys(env)) {
		b.WriteString("\t\t<key>" + xmlText(name) + "</key>\n\t\t<string>" + xmlText(env[name]) + "</string>\n")
	}
	b.WriteString(`	</dict>
	<key>RunAtLoad</key>
	<true/>
	<key>KeepAlive</key>
	<dict>
		<key>SuccessfulExit</key>
		<false/>
	</dict>
	<key>ThrottleInterval</key>
	<integer>1</integer>
	<key>AbandonProcessGroup</key>
	<true/>
	<key>ProcessType</key>
	<string>Interactive</string>
	<key>LimitLoadToSessionType</key>
	<array>
		<string>Aqua</string>
		<string>Background</string>
	</array>
	<key>ExitTimeOut</key>
	<integer>15</integer>
	<key>StandardOutPath</key>
	<string>` + xmlText(log) + `</string>
	<key>StandardErrorPath</key>
	<string>` + xmlText(log) + `</string>
</dict>
</plist>
`)
	return b.String(), nil
}

func xmlText(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder never fails
	return strings.ReplaceAll(b.String(), "{", "&#123;")
}

// parseLaunchAgent reads the unit of a property list.
func parseLaunchAgent(text string) (Unit, error) {
	v, err := parsePlist(text)
	if err != nil {
		return Unit{}, err
	}
	root, _ := v.(map[string]any)
	args, _ := root["ProgramArguments"].([]any)
	var u Unit
	for i, a := range args {
		s, ok := a.(string)
		switch {
		case !ok:
			return Unit{}, errors.New("read ProgramArguments: they are not all strings")
		case i == 0:
			u.Exe = s
		default:
			u.Args = append(u.Args, s)
		}
	}
	if u.Exe == "" {
		return Unit{}, errors.New("read ProgramArguments: there is none")
	}
	env, _ := root["EnvironmentVariables"].(map[string]any)
	for k, v := range env {
		if s, ok := v.(string); ok && (k != "PATH" || s != launchPath) {
			if u.Env == nil {
				u.Env = map[string]string{}
			}
			u.Env[k] = s
		}
	}
	return u, nil
}

// parsePlist reads a property list of dictionaries, arrays, strings, integers
// (as strings) and truth values.
func parsePlist(text string) (any, error) {
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		t, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("read a property list: %w", err)
		}
		if e, ok := t.(xml.StartElement); ok && e.Name.Local == "plist" {
			v, err := plistValue(d)
			if err != nil {
				return nil, fmt.Errorf("read a property list: %w", err)
			}
			return v, nil
		}
	}
}

// errPlistEnd is the end of the element around a value.
var errPlistEnd = errors.New("a value is missing")

func plistValue(d *xml.Decoder) (any, error) {
	for {
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil, io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		switch e := t.(type) {
		case xml.EndElement:
			return nil, errPlistEnd
		case xml.StartElement:
			return plistElement(d, e)
		}
	}
}

func plistElement(d *xml.Decoder, e xml.StartElement) (any, error) {
	switch e.Name.Local {
	case "true", "false":
		return e.Name.Local == "true", d.Skip()
	case "string", "integer", "key":
		var s string
		err := d.DecodeElement(&s, &e)
		return s, err
	case "array":
		list := []any{}
		for {
			v, err := plistValue(d)
			if err == errPlistEnd { // bare: one that is wrapped is of a value inside
				return list, nil
			}
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
	case "dict":
		m := map[string]any{}
		for {
			k, err := plistValue(d)
			if err == errPlistEnd { // bare: one that is wrapped is of a value inside
				return m, nil
			}
			if err != nil {
				return nil, err
			}
			name, ok := k.(string)
			if !ok {
				return nil, errors.New("a key is no string")
			}
			if m[name], err = plistValue(d); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil, fmt.Errorf("the element %s is not known", e.Name.Local)
}
