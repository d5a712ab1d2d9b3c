package mcp

import (
	"context"
	"encoding/json"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/reevehq/reeve/ipc/wire"
)

const instructions = `These tools are the worker's side of Reeve, which runs this mission for a person. Reading is free. What changes something happens at most once: if a call ends without an answer, call it again with exactly the same arguments. What a tool calls uncertain must not be done again.`

// tool is one of what the agent is offered; the service runs it.
type tool struct {
	name, title, description string
	schema                   string // of its input
	mutates                  bool
	waits                    bool // for news of the room, so the session must be bound
	asks                     bool // a person, who may take long
	question                 bool // offered where the agent can't ask by itself
}

// patience is how long a call outlasts a service that is away.
func (t tool) patience() time.Duration {
	if t.asks {
		return 5 * time.Minute
	}
	return outage
}

const nothing = `{"type":"object","properties":{},"additionalProperties":false}`

var tools = []tool{
	{
		name: wire.MCPGetProject, title: "Project", schema: nothing,
		description: "The project of this mission: its repository, its room, and who else works in it. Only reads; safe to repeat.",
	},
	{
		name: wire.MCPGetUpdates, title: "Messages of the room", waits: true,
		description: "Messages of the room, oldest first. Give after_message_id the id of the last message that you have read and dealt with: it counts as read from then on, and only what came later is returned, and what you were not given yet. With wait_seconds it waits for a message if there is none. Safe to repeat.",
		schema: `{"type":"object","additionalProperties":false,"properties":{
			"after_message_id":{"type":"string","pattern":"^msg_[1-9][0-9]{0,9}$","description":"Id of the last message that you have read, such as msg_12. Leave it out to read what is unread."},
			"wait_seconds":{"type":"integer","minimum":0,"maximum":45,"description":"How long to wait for a message if there is none; 0 if left out."}}}`,
	},
	{
		name: wire.MCPGetMission, title: "Mission", schema: nothing,
		description: "This mission: its scope, its phase, when it ends, and what is left of its budget. Only reads; safe to repeat.",
	},
	{
		name: wire.MCPSendMessage, title: "Send a message", mutates: true,
		description: "Leaves a message in the room for the person and the other workers. To answer the message that this turn is about, just say it in your final answer: Reeve publishes that once.",
		schema: `{"type":"object","additionalProperties":false,"required":["text"],"properties":{
			"text":{"type":"string","minLength":1,"maxLength":16384,"description":"What to say; at most 16 KiB."},
			"reply_to":{"type":"string","pattern":"^msg_[1-9][0-9]{0,9}$","description":"Id of the message that this answers."}}}`,
	},
	{
		name: wire.MCPCompleteTurn, title: "Answer the room", mutates: true,
		description: "Sets the text that is published as this turn's answer to the message that it is about, instead of your final words. It is published once, when the turn has ended well.",
		schema: `{"type":"object","additionalProperties":false,"required":["text"],"properties":{
			"text":{"type":"string","minLength":1,"maxLength":16384,"description":"The answer; at most 16 KiB."}}}`,
	},
	{
		name: wire.MCPJoinRoom, title: "Join another room", mutates: true,
		description: "Moves this worker to another room of the same project, once this turn's answer was published.",
		schema: `{"type":"object","additionalProperties":false,"required":["room_id"],"properties":{
			"room_id":{"type":"string","minLength":1,"maxLength":1024,"description":"The room's id, as get_project lists it."}}}`,
	},
	{
		name: wire.MCPRecordIntent, title: "Say what comes next", mutates: true,
		description: "Puts on record, for all to see, what you are about to do and why. Use it before larger steps.",
		schema: `{"type":"object","additionalProperties":false,"required":["text"],"properties":{
			"text":{"type":"string","minLength":1,"maxLength":16384,"description":"What you are about to do; at most 16 KiB."}}}`,
	},
	{
		name: wire.MCPRequestApproval, title: "Ask the person", mutates: true, asks: true,
		description: "Asks the person to allow or deny something that needs a decision, and waits for the answer, however long it takes. If the call is cut off, make it again with exactly the same arguments: it joins the open question. A denial is final; don't disguise or repackage what was denied.",
		schema: `{"type":"object","additionalProperties":false,"required":["title","details"],"properties":{
			"title":{"type":"string","minLength":1,"maxLength":200,"description":"The decision in one line."},
			"details":{"type":"string","minLength":1,"maxLength":16384,"description":"Exactly what will be done if it is allowed, and why."}}}`,
	},
	{
		name: wire.MCPAskQuestion, title: "Ask a question", mutates: true, asks: true, question: true,
		description: "Asks the person a question and waits for the answer. Give options to choose from where there are some; without, the person answers in their own words. If it says that there is no answer yet, call it again with exactly the same arguments: that goes on waiting for the same question. It permits nothing; for that there is request_approval.",
		schema: `{"type":"object","additionalProperties":false,"required":["question"],"properties":{
			"question":{"type":"string","minLength":1,"maxLength":16384,"description":"The whole question, with what the person has to know to answer it; at most 16 KiB."},
			"options":{"type":"array","maxItems":32,"items":{"type":"string","minLength":1,"maxLength":200},"description":"Answers to choose from, each in one line."},
			"multiple":{"type":"boolean","description":"Several options may be chosen; the answer then has one in each line."}}}`,
	},
	{
		name: wire.MCPSpawnWorker, title: "Start another worker", mutates: true,
		description: "Starts another worker for a part of the scope. Not available yet: it is refused with the reason.",
		schema: `{"type":"object","additionalProperties":false,"properties":{
			"scope":{"type":"string","maxLength":4000,"description":"What the worker is to do."}}}`,
	},
}

// add offers the tool on a server. run gets the input as the schema allows it.
func (t tool) add(s *sdk.Server, run func(ctx context.Context, input []byte) (string, error)) {
	no := false
	sdk.AddTool(s, &sdk.Tool{
		Name: t.name, Title: t.title, Description: t.description, InputSchema: json.RawMessage(t.schema),
		Annotations: &sdk.ToolAnnotations{Title: t.title, ReadOnlyHint: !t.mutates, DestructiveHint: &no, IdempotentHint: !t.mutates, OpenWorldHint: &no},
	}, func(ctx context.Context, _ *sdk.CallToolRequest, in map[string]any) (*sdk.CallToolResult, any, error) {
		input, err := json.Marshal(in)
		if err != nil {
			return nil, nil, err
		}
		said, err := run(ctx, input)
		if err != nil {
			return nil, nil, err
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: said}}}, nil, nil
	})
}
