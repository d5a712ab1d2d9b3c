// Package claudevars knows how Claude Code reads variables in its configuration,
// which it does behind an adapter, too.
package claudevars

import "strings"

// Literal keeps the program from putting its own environment, which may hold a
// key, into a value that has the form ${NAME}, such as a mission's title: the
// dollar sign itself becomes the default of a variable that is not set.
func Literal(value string) string { return strings.ReplaceAll(value, "${", "${REEVE_NOT_SET:-$}{") }
