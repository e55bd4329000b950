"""What the paper claims without a table: one small experiment each."""
