package record_test

const victimEnv = "TASK_VICTIM"

func victim() {}
