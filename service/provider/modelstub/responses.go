package modelstub

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// responsesBody is what is read of a request to the OpenAI Responses API.
type responsesBody struct {
	Model        string          `json:"model"`
	Instructions string          `json:"instructions"`
	Input        json.RawMessage `json:"input"`
	Tools        []responsesTool `json:"tools"`
}

// responsesTool is a tool on offer, or a space of names that holds some.
type responsesTool struct {
	Type  string          `json:"type"`
	Name  string          `json:"name"`
	Tools []responsesTool `json:"tools"`
}

// responsesItem is one entry of a conversation.
type responsesItem struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	Output  json.RawMessage `json:"output"`
	Tools   []responsesTool `json:"tools"` // newer models get theirs inside the conversation
}

// readResponses reads a request to the Responses API.
func readResponses(body []byte) (asked, error) {
	var in responsesBody
	if err := json.Unmarshal(body, &in); err != nil {
		return asked{}, err
	}
	a := asked{stream: true}
	a.Model, a.System = in.Model, in.Instructions
	a.offer(in.Tools)
	var items []responsesItem
	if err := json.Unmarshal(in.Input, &items); err != nil {
		return a, err
	}
	for _, item := range items {
		a.offer(item.Tools)
		switch {
		case strings.HasSuffix(item.Type, "_call_output"):
			a.result(plain(item.Output))
		case item.Type != "message" && item.Type != "":
		case item.Role == "user":
			for _, b := range blocks(item.Content) {
				a.text(b.Text)
			}
		case item.Role == "developer" || item.Role == "system":
			a.System += "\n" + plain(item.Content)
		}
	}
	return a, nil
}

func (a *asked) offer(list []responsesTool) {
	for _, t := range list {
		a.tools = true
		if t.Type == "namespace" {
			a.offer(t.Tools)
			continue
		}
		name := t.Name
		if name == "" {
			name = t.Type
		}
		a.Tools = append(a.Tools, name)
	}
}

// streamResponses answers with the events of the Responses API. It ends early
// when the client leaves.
func streamResponses(w http.ResponseWriter, r *http.Request, id, model string, s step) {
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(name string, v object) {
		v["type"] = name
		data, _ := json.Marshal(v)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, data)
		w.(http.Flusher).Flush()
	}
	response := func(status string, output []object) object {
		return object{"id": "resp_" + id, "object": "response", "status": status, "model": model, "output": output}
	}
	send("response.created", object{"response": response("in_progress", []object{})})
	var output []object
	for i, p := range s {
		var item object
		switch {
		case p.kind == tool:
			item = responsesCall(id, i, p)
			send("response.output_item.added", object{"output_index": i, "item": item})
		case p.kind == think:
			key := fmt.Sprintf("rs_%s_%d", id, i)
			item = object{"type": "reasoning", "id": key, "summary": []object{{"type": "summary_text", "text": p.text}}}
			send("response.output_item.added", object{"output_index": i, "item": object{"type": "reasoning", "id": key, "summary": []object{}}})
			send("response.reasoning_summary_part.added", object{"item_id": key, "output_index": i, "summary_index": 0, "part": object{"type": "summary_text", "text": ""}})
			send("response.reasoning_summary_text.delta", object{"item_id": key, "output_index": i, "summary_index": 0, "delta": p.text})
		default:
			key := fmt.Sprintf("msg_%s_%d", id, i)
			whole := ""
			send("response.output_item.added", object{"output_index": i, "item": object{"type": "message", "id": key, "role": "assistant", "status": "in_progress", "content": []object{}}})
			for j, text := range pieces(p) {
				if j > 0 && !pause(r, p.ms) {
					return
				}
				whole += text
				send("response.output_text.delta", object{"item_id": key, "output_index": i, "content_index": 0, "delta": text})
			}
			if p.kind == drop {
				panic(http.ErrAbortHandler) // cuts the connection without a word
			}
			item = object{"type": "message", "id": key, "role": "assistant", "status": "completed",
				"content": []object{{"type": "output_text", "text": whole, "annotations": []object{}}}}
		}
		send("response.output_item.done", object{"output_index": i, "item": item})
		output = append(output, item)
	}
	done := response("completed", output)
	// This API counts what came from a cache within the input.
	done["usage"] = object{
		"input_tokens": InputTokens + CacheReadTokens, "input_tokens_details": object{"cached_tokens": CacheReadTokens},
		"output_tokens": OutputTokens, "output_tokens_details": object{"reasoning_tokens": 0},
		"total_tokens": InputTokens + CacheReadTokens + OutputTokens,
	}
	send("response.completed", object{"response": done})
}

// responsesCall is a tool call. Input that is a text, not an object, makes a
// call of a free-form tool.
func responsesCall(id string, i int, p part) object {
	call, key := fmt.Sprintf("call_%s_%d", id, i), fmt.Sprintf("fc_%s_%d", id, i)
	var text string
	if json.Unmarshal(p.input, &text) == nil {
		return object{"type": "custom_tool_call", "id": key, "call_id": call, "name": p.name, "input": text, "status": "completed"}
	}
	item := object{"type": "function_call", "id": key, "call_id": call, "name": p.name, "arguments": string(p.input), "status": "completed"}
	if space, name, ok := strings.Cut(p.name, "/"); ok { // an MCP server's tool
		item["namespace"], item["name"] = space, name
	}
	return item
}

// pause waits ms milliseconds and reports whether the client is still there.
func pause(r *http.Request, ms int) bool {
	if ms == 0 {
		return true
	}
	t := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
		return false
	}
}
