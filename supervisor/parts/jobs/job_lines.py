"""Jobs as text for people; all text is cleaned."""

from swarm.mailbox.parts.jobs.job_messages import JobBegan, JobClosed, JobRowEnded

from ...base.safe_text import clean_line


def describe_job(body: JobBegan | JobRowEnded | JobClosed) -> str:
    match body:
        case JobBegan():
            text = f"{body.job_id} {body.request.csv_path}: {body.rows} rows"
            return clean_line(f"{text}, attempt {body.attempt}")
        case JobRowEnded():
            return clean_line(f"row {body.index + 1}: {' '.join(body.cells[4:7])}")
        case JobClosed():
            return clean_line(f"{body.job_id} {body.status}")
