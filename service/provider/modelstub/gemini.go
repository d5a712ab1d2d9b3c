package modelstub

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// geminiModel is the model of a path like /v1beta/models/NAME:streamGenerateContent.
func geminiModel(path string) string {
	_, rest, _ := strings.Cut(path, "/models/")
	name, _, _ := strings.Cut(rest, ":")
	return name
}

// readGemini reads a request of the Gemini API.
func readGemini(body []byte) (asked, error) {
	type part struct {
		Text   string `json:"text"`
		Result *struct {
			Response json.RawMessage `json:"response"`
		} `json:"functionResponse"`
	}
	var in struct {
		System struct {
			Parts []part `json:"parts"`
		} `json:"systemInstruction"`
		Contents []struct {
			Role  string `json:"role"`
			Parts []part `json:"parts"`
		} `json:"contents"`
		Tools []struct {
			Functions []struct {
				Name string `json:"name"`
			} `json:"functionDeclarations"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return asked{}, err
	}
	a := asked{stream: true}
	for _, p := range in.System.Parts {
		a.System += p.Text
	}
	for _, t := range in.Tools {
		for _, f := range t.Functions {
			a.Tools = append(a.Tools, f.Name)
		}
	}
	a.tools = len(a.Tools) > 0
	for _, c := range in.Contents {
		if c.Role != "user" {
			continue
		}
		for _, p := range c.Parts {
			switch {
			case p.Result != nil:
				a.result(string(p.Result.Response))
			case p.Text != "":
				a.text(p.Text)
			}
		}
	}
	return a, nil
}

// streamGemini answers as the Gemini API does, each part in an event of its own.
func streamGemini(w http.ResponseWriter, r *http.Request, id, model string, s step) {
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(last bool, parts ...object) {
		candidate := object{"index": 0, "content": object{"role": "model", "parts": parts}}
		v := object{"responseId": id, "modelVersion": model, "candidates": []object{candidate}}
		if last {
			candidate["finishReason"] = "STOP"
			v["usageMetadata"] = object{"promptTokenCount": InputTokens + CacheReadTokens + CacheWriteTokens, "cachedContentTokenCount": CacheReadTokens,
				"candidatesTokenCount": OutputTokens, "totalTokenCount": InputTokens + CacheReadTokens + CacheWriteTokens + OutputTokens}
		}
		data, _ := json.Marshal(v)
		fmt.Fprintf(w, "data: %s\n\n", data)
		w.(http.Flusher).Flush()
	}
	for _, p := range s {
		switch p.kind {
		case tool:
			send(false, object{"functionCall": object{"name": p.name, "args": p.input}})
			continue
		case think:
			send(false, object{"text": p.text, "thought": true})
			continue
		}
		for j, text := range pieces(p) {
			if j > 0 && !pause(r, p.ms) {
				return
			}
			send(false, object{"text": text})
		}
		if p.kind == drop {
			panic(http.ErrAbortHandler)
		}
	}
	send(true, object{"text": ""})
}
