package modelstub

import (
	"encoding/json"
	"fmt"
	"net/http"
)

type object = map[string]any

func usage(output int) object {
	return object{"input_tokens": InputTokens, "cache_read_input_tokens": CacheReadTokens,
		"cache_creation_input_tokens": CacheWriteTokens, "output_tokens": output}
}

func reason(s step) string {
	if s.tools() > 0 {
		return "tool_use"
	}
	return "end_turn"
}

func toolID(id string, i int) string { return fmt.Sprintf("toolu_%s_%d", id, i) }

// pieces returns the texts of p, in the order in which they are sent.
func pieces(p part) []string {
	switch p.kind {
	case slow, drop:
		list := make([]string, p.n)
		for i := range list {
			list[i] = fmt.Sprintf("piece %d. ", i+1)
		}
		return list
	}
	return []string{p.text}
}

// whole is the answer to a client that did not ask for a stream.
func whole(id, model string, s step) object {
	var content []object
	for i, p := range s {
		switch p.kind {
		case tool:
			content = append(content, object{"type": "tool_use", "id": toolID(id, i), "name": p.name, "input": p.input})
		case think:
			content = append(content, object{"type": "thinking", "thinking": p.text, "signature": "c2ln"})
		default:
			text := ""
			for _, t := range pieces(p) {
				text += t
			}
			content = append(content, object{"type": "text", "text": text})
		}
	}
	return object{"id": "msg_" + id, "type": "message", "role": "assistant", "model": model, "content": content,
		"stop_reason": reason(s), "stop_sequence": nil, "usage": usage(OutputTokens)}
}

// stream answers with server-sent events. It ends early when the client leaves.
func stream(w http.ResponseWriter, r *http.Request, id, model string, s step) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Request-Id", "req_"+id)
	send := func(name string, v object) {
		v["type"] = name
		data, _ := json.Marshal(v)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, data)
		w.(http.Flusher).Flush()
	}
	send("message_start", object{"message": object{"id": "msg_" + id, "type": "message", "role": "assistant", "model": model,
		"content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": usage(1)}})
	for i, p := range s {
		start, delta, field := object{"type": "text", "text": ""}, "text_delta", "text"
		switch p.kind {
		case tool:
			start = object{"type": "tool_use", "id": toolID(id, i), "name": p.name, "input": object{}}
			delta, field = "input_json_delta", "partial_json"
			p.text = string(p.input)
		case think:
			start, delta, field = object{"type": "thinking", "thinking": "", "signature": ""}, "thinking_delta", "thinking"
		}
		send("content_block_start", object{"index": i, "content_block": start})
		for j, text := range pieces(p) {
			if j > 0 && !pause(r, p.ms) {
				return
			}
			send("content_block_delta", object{"index": i, "delta": object{"type": delta, field: text}})
		}
		switch p.kind {
		case drop:
			panic(http.ErrAbortHandler) // cuts the connection without a word
		case think:
			send("content_block_delta", object{"index": i, "delta": object{"type": "signature_delta", "signature": "c2ln"}})
		}
		send("content_block_stop", object{"index": i})
	}
	send("message_delta", object{"delta": object{"stop_reason": reason(s), "stop_sequence": nil}, "usage": object{"output_tokens": OutputTokens}})
	send("message_stop", object{})
}
