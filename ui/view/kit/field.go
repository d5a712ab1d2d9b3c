package kit

const fieldHeight float32 = 38
