package wire

import "time"

// Methods of rooms, for persons. A worker uses its bridge.
const (
	MethodRoomList     = "room.list"
	MethodRoomMessages = "room.messages"
	MethodRoomSend     = "room.send"
)

// TopicRooms can be watched: the snapshot holds a Room for each, an EvRoom
// event the message that was added, and an EvRoomChanged event a Room that is
// new, or that a worker came into or left.
const (
	TopicRooms    = "rooms"
	EvRoom        = "room.message"
	EvRoomChanged = "room.changed"
)

// Room is a place where a person and workers leave each other messages, in
// order. A mission has one of its own from its start.
type Room struct {
	ID      string `json:"id"`
	Title   string `json:"title"`
	Mission string `json:"mission_id"` // whose it is
	Project string `json:"project,omitempty"`
	// Workers are the live missions whose workers are in it.
	Workers []string `json:"workers"`
	Last    string   `json:"last_message_id,omitempty"` // msg_<n>
	// Read is how far the room's own worker has acknowledged it.
	Read   string     `json:"read_cursor,omitempty"`
	Count  int        `json:"count"`
	LastAt *time.Time `json:"last_at,omitempty"`
}

// Kinds of room messages.
const (
	RoomText   = "text"
	RoomAnswer = "answer" // the final answer of a turn that a message woke
	RoomIntent = "intent" // what a worker is about to do
	RoomNotice = "notice" // from Reeve itself
)

// RoomMessage is one message. IDs count up from msg_1 in each room.
type RoomMessage struct {
	ID      string    `json:"id"`
	Room    string    `json:"room_id"`
	Kind    string    `json:"kind"`
	From    string    `json:"from"` // person | agent | reeve
	Name    string    `json:"name"` // as it is shown
	Mission string    `json:"mission_id,omitempty"`
	Turn    string    `json:"turn,omitempty"`
	Answers string    `json:"answers,omitempty"` // id of the message that it answers
	Text    string    `json:"text"`
	At      time.Time `json:"at"`
}

// MaxRoomText is the most bytes of a message.
const MaxRoomText = 16 << 10

// RoomListResult is every room, the newest first.
type RoomListResult struct {
	Rooms []Room `json:"rooms"`
}

// RoomMessagesParams reads a room after a message. Room is a room's or a
// mission's id; Limit at most 200. After msg_0 all are read from the first on,
// without After the newest.
type RoomMessagesParams struct {
	Room  string `json:"room"`
	After string `json:"after_message_id,omitempty"`
	Limit int    `json:"limit,omitempty"`
}

// RoomMessagesResult is a page, oldest first.
type RoomMessagesResult struct {
	Room     Room          `json:"room"`
	Messages []RoomMessage `json:"messages"`
	More     bool          `json:"more"`
}

// RoomSendParams adds a person's message; it wakes the room's workers.
type RoomSendParams struct {
	RequestKey string `json:"request_key,omitempty"`
	Room       string `json:"room"`
	Text       string `json:"text"`
}

// RoomSendResult carries the message as it was kept.
type RoomSendResult struct {
	Message RoomMessage `json:"message"`
}
