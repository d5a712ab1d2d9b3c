package model

import (
	"regexp"
	"strings"
	"sync"

	"github.com/reevehq/reeve/ui/say"
)

// sentences are what the rules of approvals say, in English, and a person must
// read before an answer. They come from the service in one piece; here they are
// known, so that they can be said in the person's language. %s is what the
// sentence is about, and keeps its order in every language.
var sentences = []string{
	// What a rule stands for.
	say.Key("exactly this command"),
	say.Key("exactly this change"),
	say.Key("exactly this request"),
	say.Key("“%s” with any further plain words: no options, no paths to outside, no other shell syntax"),
	say.Key("any change to any file in the folder %s, removals too"),
	say.Key("any change to the file %s, its removal too"),
	say.Key("the tool %s of the MCP server %s with any arguments"),
	// Why it is not clear what would run.
	say.Key("The command is too long or too deeply nested to be taken apart."),
	say.Key("The command could not be read as a shell command."),
	say.Key("The command sets %s, so its programs may not be the ones that they are named after."),
	say.Key("The name of a program is not written out: the shell works it out when the command runs."),
	say.Key("It is not clear which program %s would run."),
	say.Key("It is not clear what a shell in the command would run."),
	say.Key("A part of the command is put together only when it runs."),
	say.Key("The command has too many shells within shells to be taken apart."),
	// What would be invisible or mistaken; the names of Unicode are left alone.
	say.Key("the bracket that marks what was hidden"),
	say.Key("control character"),
	say.Key("variation selector"),
	say.Key("tag character"),
	say.Key("character without width"),
	say.Key("character without a shape"),
	say.Key("character that looks like an ASCII one"),
	say.Key("letter of another script among or like Latin ones"),
	say.Key("byte that is not UTF-8"),
	say.Key("run of empty lines"),
	say.Key("space"),
	say.Key("long or trailing run of spaces"),
	say.Key("long or trailing run of tabs"),
	say.Key("long or trailing run of spaces and tabs"),
	// Why a mission waits to be recovered.
	say.Key("The guard of this mission ended unexpectedly. Its processes are gone; the last turn may have done work that it could not report. Look at the checkout, then recover or stop the mission."),
}

var patterns = sync.OnceValue(func() []*regexp.Regexp {
	var out []*regexp.Regexp
	for _, s := range sentences {
		out = append(out, regexp.MustCompile(`^`+strings.ReplaceAll(regexp.QuoteMeta(s), "%s", `(.+)`)+`$`))
	}
	return out
})

// Told says a sentence of the rules in the person's language. What is none is
// given back as it is.
func Told(text string) string {
	for i, p := range patterns() {
		found := p.FindStringSubmatch(text)
		if found == nil {
			continue
		}
		var out strings.Builder
		for i, part := range strings.Split(say.Word(sentences[i]), "%s") {
			if i > 0 && i < len(found) {
				out.WriteString(found[i])
			}
			out.WriteString(part)
		}
		return out.String()
	}
	return text
}
