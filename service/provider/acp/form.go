package acp

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/reevehq/reeve/service/provider"
)

// ownWords is what follows the name of a field with choices in that of the field
// for an answer which is none of them.
const ownWords = "_custom"

// field is one question of a form.
type field struct {
	name    string
	text    string
	options []string
	many    bool
}

// fields reads a form of choices and texts. ok is false where it asks for
// something else, which a question can't show.
func fields(form *sdk.UnstableCreateElicitationForm) (list []field, ok bool) {
	type choice struct{ Const string }
	for _, name := range slices.Sorted(maps.Keys(form.RequestedSchema.Properties)) {
		if base, own := strings.CutSuffix(name, ownWords); own && form.RequestedSchema.Properties[base] != nil {
			continue
		}
		b, err := json.Marshal(form.RequestedSchema.Properties[name])
		if err != nil {
			return nil, false
		}
		var p struct {
			Type, Title, Description string
			Enum                     []string
			OneOf                    []choice
			Items                    struct {
				Enum  []string
				AnyOf []choice
			}
		}
		if json.Unmarshal(b, &p) != nil || p.Type != "string" && p.Type != "array" {
			return nil, false
		}
		f := field{name: name, text: p.Description, many: p.Type == "array", options: append(p.Enum, p.Items.Enum...)}
		for _, c := range append(p.OneOf, p.Items.AnyOf...) {
			f.options = append(f.options, c.Const)
		}
		if f.text == "" {
			f.text = p.Title
		}
		list = append(list, f)
	}
	return list, len(list) > 0
}

// asQuestion shows a form as one question; answers then gives each field its line.
func asQuestion(form *sdk.UnstableCreateElicitationForm, list []field) *provider.Question {
	q := &provider.Question{Text: form.Message}
	if len(list) == 1 {
		q.Options, q.Multi = list[0].options, list[0].many
		return q
	}
	for _, f := range list {
		q.Text += "\n" + f.text
		if len(f.options) > 0 {
			q.Text += " (" + strings.Join(f.options, ", ") + ")"
		}
	}
	return q
}

// answers gives each field its line of the text, or all of them the whole text
// where the lines don't match.
func answers(form *sdk.UnstableCreateElicitationForm, list []field, text string) map[string]any {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	content := map[string]any{}
	for i, f := range list {
		said := text
		if len(lines) == len(list) {
			said = strings.TrimSpace(lines[i])
		}
		parts := []string{said}
		if f.many && !slices.Contains(f.options, said) {
			parts = strings.Split(said, ", ")
		}
		chosen := len(f.options) == 0 || !slices.ContainsFunc(parts, func(p string) bool { return !slices.Contains(f.options, p) })
		_, own := form.RequestedSchema.Properties[f.name+ownWords]
		switch {
		case !chosen && own:
			content[f.name+ownWords] = said
		case f.many:
			content[f.name] = parts
		default:
			content[f.name] = said
		}
	}
	return content
}

// UnstableCreateElicitation implements the client's part of it: the agent asks
// the person something. What can't be shown, or belongs to no call of the turn, is
// not asked.
func (cl client) UnstableCreateElicitation(ctx context.Context, r sdk.UnstableCreateElicitationRequest) (sdk.UnstableCreateElicitationResponse, error) {
	cancel := sdk.NewUnstableCreateElicitationResponseCancel()
	if r.Form == nil || !cl.c.agent.forms {
		return cancel, nil
	}
	list, ok := fields(r.Form)
	call := cl.c.asking(r.Form.Message, list)
	if !ok || call == "" {
		return cancel, nil
	}
	id, a := cl.c.request(sdk.ToolCallUpdate{ToolCallId: sdk.ToolCallId(call)}, []sdk.PermissionOption{
		{OptionId: "answer", Kind: sdk.PermissionOptionKindAllowOnce}, {OptionId: "refuse", Kind: sdk.PermissionOptionKindRejectOnce}}, asQuestion(r.Form, list))
	if a == nil {
		return cancel, nil
	}
	outcome := cl.c.await(ctx, id, a)
	cl.c.mu.Lock()
	text := a.text
	cl.c.mu.Unlock()
	switch {
	case outcome.Selected == nil:
		return cancel, nil
	case outcome.Selected.OptionId == "refuse":
		return sdk.NewUnstableCreateElicitationResponseDecline(), nil
	}
	said := sdk.NewUnstableCreateElicitationResponseAccept()
	said.Accept.Content = answers(r.Form, list, text)
	return said, nil
}

// asking finds the running call whose questions a form asks; the SDK drops the
// id that the form names.
func (c *conn) asking(message string, list []field) string {
	c.step.Lock()
	defer c.step.Unlock()
	for _, id := range slices.Sorted(maps.Keys(c.calls)) {
		var in struct{ Questions []struct{ Question string } }
		if c.calls[id].allowed || json.Unmarshal(c.calls[id].tool.Input, &in) != nil || len(in.Questions) != len(list) {
			continue
		}
		same := true
		for i, q := range in.Questions {
			same = same && (q.Question == list[i].text || len(list) == 1 && q.Question == message)
		}
		if same {
			return id
		}
	}
	return ""
}
